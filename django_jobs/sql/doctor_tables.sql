SELECT t.relname, coalesce(t.reloptions, '{}'), coalesce(s.n_live_tup, 0), coalesce(s.n_dead_tup, 0),
       extract(epoch FROM statement_timestamp() - greatest(s.last_autovacuum, s.last_vacuum))::float8 AS cleaned,   -- null: never
       pg_table_size(t.oid)
FROM unnest(%(tables)s::text[]) AS n(name) JOIN pg_class t ON t.oid = to_regclass(quote_ident(n.name))
LEFT JOIN pg_stat_user_tables s ON s.relid = t.oid
ORDER BY t.relname
