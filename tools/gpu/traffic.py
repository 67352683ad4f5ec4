"""Who sends what in a run: the flood, the quiet team and the pager."""

import asyncio
import random
import time

from client import Call, chat_request, send


class Traffic:
    """The requests of one run. Every run sends the same ones at the same times."""

    def __init__(self, options, url, flood):
        self.options, self.url, self.flood = options, url, flood
        self.calls, self.tasks = [], []
        self.open = True

    def call(self, team, dice):
        options = self.options
        mine = team == "flood"
        prompt = dice.randint(*(options.prompts if mine else options.other_prompts))
        count = dice.randint(*(options.responses if mine else options.other_responses))
        headers = {"x-team": team}
        if team == "pager":
            headers["x-priority"] = "critical"
        text = "%08x" % dice.getrandbits(32) + " and" * (prompt - 2)
        call = Call(team, chat_request(self.url, headers, text[: 4 * prompt], count))
        self.calls.append(call)
        return call

    async def keep_outstanding(self, number):
        dice = random.Random(f"flood {number}")
        while self.open:
            call = self.call("flood", dice)
            await send(self.url, call)
            if call.status != 200:
                await asyncio.sleep(min(call.retry_after_s, 1.0))

    async def arrive(self, team, rate, seconds):
        """One request in each period, at a random moment of the period."""
        dice = random.Random(team)
        begin = time.monotonic()
        for number in range(int(rate * seconds)):
            at = begin + (number + dice.random()) / rate
            await asyncio.sleep(max(at - time.monotonic(), 0))
            self.tasks.append(asyncio.ensure_future(send(self.url, self.call(team, dice))))

    async def run(self, seconds):
        options = self.options
        floods = []
        if self.flood:
            numbers = range(options.outstanding)
            floods = [asyncio.ensure_future(self.keep_outstanding(n)) for n in numbers]
        await asyncio.gather(
            self.arrive("pager", options.pager_rate, seconds),
            self.arrive("quiet", options.quiet_rate, seconds),
            asyncio.sleep(seconds),
        )
        self.open = False
        return floods

    async def end(self, floods):
        """Waits for the pager and the quiet team, then lets every other request go."""
        if self.tasks:
            await asyncio.wait(self.tasks, timeout=self.options.grace)
        for task in self.tasks + floods:
            task.cancel()
        await asyncio.gather(*self.tasks, *floods, return_exceptions=True)
