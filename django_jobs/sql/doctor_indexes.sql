SELECT t.relname, i.relname, x.indisvalid AND x.indisready AS valid
FROM unnest(%(tables)s::text[]) AS n(name) JOIN pg_class t ON t.oid = to_regclass(quote_ident(n.name))
LEFT JOIN pg_index x ON x.indrelid = t.oid LEFT JOIN pg_class i ON i.oid = x.indexrelid
ORDER BY t.relname, i.relname
