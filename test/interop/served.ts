// `hermes serve` as a process of its own, over a model that plays its answers.
import * as Effect from "effect/Effect"
import { spawn } from "node:child_process"
import { mkdirSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { program, withoutSandbox } from "../support/hermes.ts"
import * as playedModel from "../support/playedModel.ts"
import { temporaryDirectory } from "../support/temporaryDirectory.ts"

/** Key of the server's owner. */
export const apiKey = "interop-0123456789abcdef"

/** Starts the program; it ends with the scope. */
export const serve = Effect.fnUntraced(function* (plays: Parameters<typeof playedModel.make>[0]) {
  const played = yield* playedModel.make(plays)
  const root = yield* temporaryDirectory
  const home = join(root, ".hermes")
  mkdirSync(home)
  writeFileSync(
    join(home, "config.yaml"),
    [
      "model:",
      "  provider: custom",
      "  default: m",
      `  base_url: ${played.url}/v1`,
      "  api_key: upstream",
      "  context_length: 100000"
    ].join("\n")
  )
  const env = { PATH: process.env["PATH"], HOME: root, HERMES_HOME: home, HERMES_SERVER_KEY: apiKey, ...withoutSandbox }
  const child = yield* Effect.acquireRelease(
    Effect.sync(() =>
      spawn(process.execPath, [program, "serve", "--port", "0"], { cwd: root, env, stdio: ["ignore", "pipe", "pipe"] })
    ),
    (child) => Effect.sync(() => child.kill("SIGKILL"))
  )
  const url = yield* Effect.callback<string, Error>((resume) => {
    let said = ""
    for (const stream of [child.stdout, child.stderr])
      stream.setEncoding("utf8").on("data", (text: string) => {
        said += text
        const found = /http:\/\/127\.0\.0\.1:\d+/u.exec(said)?.[0]
        if (found !== undefined) resume(Effect.succeed(found))
      })
    child.once("close", () => resume(Effect.fail(new Error(`hermes serve ended: ${said}`))))
  })
  return { ...played, url }
})
