SELECT set_config('statement_timeout', %(timeout)s::text, true), set_config('lock_timeout', %(timeout)s::text, true),
       set_config('transaction_read_only', 'on', true), set_config('jit', 'off', true)   -- of this transaction, which is rolled back
