"""The programs that a run starts: the model server, and the gateway in front of it."""

import asyncio
import ctypes
import signal


def end_with_parent():
    """A child does not outlive this program, however it ends."""
    set_death_signal = 1
    ctypes.CDLL(None).prctl(set_death_signal, signal.SIGKILL)


class Program:
    """A child process that says where it listens."""

    @classmethod
    async def start(cls, command, log, seconds):
        self = cls()
        self.said = ""
        with open(log, "wb") as errors:
            self.process = await asyncio.create_subprocess_exec(
                *map(str, command),
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                stderr=errors,
                preexec_fn=end_with_parent,
            )
        try:
            self.url = await asyncio.wait_for(self.address(log), seconds)
        except BaseException:
            await self.stop()
            raise
        self.drained = asyncio.ensure_future(self.process.stdout.read())
        return self

    async def address(self, log):
        while line := await self.process.stdout.readline():
            if b"listening on http://" in line:
                return line.decode().split("listening on ")[1].split()[0]
            self.said += line.decode()
        await self.process.wait()
        raise RuntimeError(f"{log}: {log.read_text()[-2000:]}")

    async def stop(self):
        if self.process.returncode is None:
            self.process.terminate()
            try:
                await asyncio.wait_for(self.process.wait(), 5)
            except TimeoutError:
                self.process.kill()
                await self.process.wait()
