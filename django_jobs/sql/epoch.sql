WITH me AS MATERIALIZED (         -- waits for a claim of mine that is still at work, and fences later ones
    SELECT id FROM django_jobs_worker WHERE id = %(worker)s::uuid FOR UPDATE
)
UPDATE django_jobs_worker w SET epoch = w.epoch + 1 FROM me WHERE w.id = me.id RETURNING w.epoch
