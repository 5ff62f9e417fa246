"""An application whose tasks stop wherever a test of the console needs one."""

from __future__ import annotations

from backstay import App, Permanent, Retry, sleep, wait_for

HOSTILE = "</title><script>window.hacked = 1</script><img src=x onerror='window.hacked = 2'>"

app = App("desk")
bank = app.agent("bank", retry=Retry(attempts=1))
carrier = app.agent("carrier", retry=Retry(attempts=1))


@bank.step
async def charge(order: str, way: str) -> str:
    return f"{order} is paid"


@charge.undo
async def refund(order: str, way: str) -> None:
    if way == "undo fails":
        raise Permanent("the bank is closed")


@bank.step
async def sign(order: str) -> str:
    return f"{order} is signed"


@sign.undo(manual=True)
async def strike(order: str) -> None: ...


@carrier.step
async def ship(order: str, way: str) -> str:
    if way in ("fails", "undo fails", "by hand"):
        raise Permanent("no road leads there")
    return f"{order} is on its way"


@app.workflow
async def fulfil(order: str, way: str) -> str:
    await charge(order, way)
    if way == "by hand":
        await sign(order)
    if way == "broken":
        raise ValueError(HOSTILE)
    if way == "waits":
        return str(await wait_for("approval"))
    if way == "sleeps":
        await sleep("1h")
    return await ship(order, way)
