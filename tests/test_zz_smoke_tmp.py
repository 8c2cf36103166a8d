import pytest
from datetime import timedelta, datetime, UTC
from django.db import transaction
from testproject.shop.tasks import send_receipt, change_price
pytestmark = pytest.mark.django_db(transaction=True)
def test_it():
    r = change_price.enqueue(1, "x", price="3", supplier="s")
    print(r)
    r.refresh()
    print(r)
    ids = change_price.enqueue_many(change_price.s(i,"x","3",supplier="x") for i in range(5))
    print(ids)
    r2 = change_price.using(run_after=timedelta(minutes=3), priority=4, metadata={"a":1}).enqueue(1,2,3,supplier="x")
    print(r2)
    from django_jobs.compat import task_backends
    print(change_price.get_result(r2.id))
    with transaction.atomic():
        change_price.enqueue_on_commit(1,2,3,supplier="x")
        assert task_backends["default"]
    from django_jobs.models import Job
    assert Job.objects.count()==8
async def _a():
    r = await change_price.aenqueue(1,2,3,supplier="x")
    return await change_price.aget_result(r.id)
def test_a():
    import asyncio
    print(asyncio.run(_a()))
def test_speed():
    import time
    from django_jobs.compat import task_backends
    from django_jobs.models import Job
    b = task_backends["default"]
    def t(f, n=2000):
        s=time.perf_counter()
        for _ in range(n): f()
        return (time.perf_counter()-s)/n*1e6
    print("validate", t(lambda: b.validate_task(change_price)))
    print("new", t(lambda: b._new(change_price, [1,"x"], {"supplier":"s"})))
    print("enqueue", t(lambda: change_price.enqueue(1,"x",supplier="s"), 300))
    print("create", t(lambda: Job.objects.create(task="x", args=[1,"x"], kwargs={"supplier":"s"}), 300))
    print("using", t(lambda: change_price.using(priority=3)))
    from django_jobs.tasks import rebuild
    print("rebuild", t(lambda: rebuild(change_price, priority=3)))
    c=[change_price.s(1,"x",supplier="s")]*1000
    print("many/1000", t(lambda: change_price.enqueue_many(c),5)/1000)
