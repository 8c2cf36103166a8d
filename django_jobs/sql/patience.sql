WITH usual AS MATERIALIZED (SELECT current_setting('lock_timeout') AS timeout)
SELECT timeout, set_config('lock_timeout', %(timeout)s::text, true) FROM usual
