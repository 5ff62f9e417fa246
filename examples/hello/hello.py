import asyncio

from backstay import App

app = App("hello")
post = app.agent("post")


@post.step
async def send(card: str) -> str:
    print(f"the post takes {card}")
    return f"{card} is on its way"


@send.undo
async def call_back(card: str) -> None:
    print(f"the post brings {card} back")


@app.workflow
async def greet(name: str) -> str:
    return await send(f"a card to {name}")


async def main() -> None:
    async with app.run(store="sqlite:///hello.db"):
        task = await app.submit(greet, "Ada", id="card-1")
        print(await task.result())


if __name__ == "__main__":
    asyncio.run(main())
