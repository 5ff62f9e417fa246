import asyncio

from backstay import App, Permanent, TaskFailed

app = App("shop")
bank, carrier = app.agent("bank"), app.agent("carrier")


@bank.step
async def charge(order: str, euros: int) -> None:
    print(f"{order}: charged {euros} euros")


@charge.undo
async def refund(order: str, euros: int) -> None:
    print(f"{order}: refunded {euros} euros")


@carrier.step
async def ship(order: str, city: str) -> str:
    if city == "Atlantis":
        raise Permanent("no road leads to Atlantis")
    return f"{order}: shipped to {city}"


@ship.undo
async def call_back(order: str, city: str) -> None:
    print(f"{order}: called back from {city}")


@app.workflow
async def fulfil(order: str, euros: int, city: str) -> str:
    await charge(order, euros)
    return await ship(order, city)


async def main() -> None:
    async with app.run(store="sqlite:///hello.db"):
        for order, city in [("order-1", "Lisbon"), ("order-2", "Atlantis")]:
            task = await app.submit(fulfil, order, 30, city, id=order)
            try:
                print(await task.result())
            except TaskFailed as failure:
                print(f"{order}: {failure}")


if __name__ == "__main__":
    asyncio.run(main())
