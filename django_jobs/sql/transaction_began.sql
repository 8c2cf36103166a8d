SELECT extract(epoch FROM transaction_timestamp())::text
