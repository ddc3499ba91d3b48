// `hermes serve` as a process, until the scope ends or it is told to stop.
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import type { ChildProcess } from "node:child_process"
import type { Ended, Options } from "./hermes.ts"

type Hermes = (args: ReadonlyArray<string>, options: Partial<Options>) => Effect.Effect<Ended>

/** Starts a server in a home directory. `stop` ends it with a signal, and returns its last words. */
export const serve = Effect.fnUntraced(function* (hermes: Hermes, env: Readonly<Record<string, string>>) {
  const listening = yield* Deferred.make<string>()
  let child: ChildProcess | undefined
  const server = hermes(["serve", "--port", "0"], {
    env,
    onStart: (started) => (child = started),
    onOutput: (text) => {
      const url = /Serving the agent at (\S+)\n/u.exec(text)?.[1]
      if (url !== undefined) Deferred.doneUnsafe(listening, Effect.succeed(url))
    }
  })
  const fiber = yield* Effect.forkScoped(
    Effect.tap(server, ({ stderr, stdout }) => Deferred.die(listening, new Error(`${stdout}${stderr}`)))
  )
  const url = yield* Deferred.await(listening)
  const post = async (path: string, key: string, body: object) => {
    const response = await fetch(`${url}${path}`, {
      method: "POST",
      headers: { authorization: `Bearer ${key}`, "content-type": "application/json" },
      body: JSON.stringify(body)
    })
    return { status: response.status, text: await response.text() }
  }
  const stop = Effect.suspend(() => {
    child?.kill("SIGINT")
    return Fiber.join(fiber)
  })
  return { post, stop }
})
