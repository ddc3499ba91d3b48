// The set-up of a model on a terminal, by `hermes model` and before a first conversation: three questions, a tested
// key, and nothing saved that does not answer.
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { existsSync, readFileSync, statSync } from "node:fs"
import { join } from "node:path"
import * as HttpServer from "../../models/provider/HttpServer.ts"
import { machine, program } from "../../support/hermes.ts"
import * as Pseudo from "../../support/pseudoTerminal.ts"
import { longestWaitMillis } from "../../support/waiting.ts"

const completion = {
  id: "c-1",
  object: "chat.completion",
  model: "tiny-1",
  choices: [{ index: 0, message: { role: "assistant", content: "ok" }, finish_reason: "stop" }],
  usage: { prompt_tokens: 9, completion_tokens: 1, total_tokens: 10 }
}

const server = HttpServer.make(({ headers, url }, response) => {
  if (url === "/v1/models")
    return HttpServer.json(response, 200, {
      data: [
        { id: "tiny-1", max_model_len: 65_536 },
        { id: "other", max_model_len: 8_192 }
      ]
    })
  return url === "/v1/chat/completions" && headers.authorization === "Bearer right-key-123"
    ? HttpServer.json(response, 200, completion)
    : HttpServer.json(response, 401, { error: { message: "Incorrect API key provided", code: "invalid_api_key" } })
})

describe.skipIf(Pseudo.launcher === undefined)("hermes model on a terminal", () => {
  const opened = Effect.fnUntraced(function* (command: string) {
    const user = yield* machine
    const { url } = yield* server
    if (Pseudo.launcher === undefined) throw new Error("no terminal")
    const terminal = yield* Pseudo.open(
      Pseudo.launcher,
      `cd '${user.cwd}' && '${process.execPath}' '${program}' ${command}`,
      { HERMES_HOME: user.home, HOME: user.cwd, OPENROUTER_API_KEY: "", NO_COLOR: "1" }
    )
    let seen = 0
    // What was written since the last question: the same question is asked twice.
    const until = Effect.fnUntraced(function* (text: string) {
      const deadline = performance.now() + longestWaitMillis
      while (!terminal.written().slice(seen).includes(text)) {
        if (performance.now() > deadline)
          throw new Error(`${text} did not come: ${JSON.stringify(terminal.written().slice(seen))}`)
        yield* Effect.promise(() => new Promise<void>((resolve) => setTimeout(resolve, 10)))
      }
      seen = terminal.written().indexOf(text, seen) + text.length
    })
    return { ...user, ...terminal, until, url }
  })

  it.live(
    "asks for provider, key and model before the first conversation, tries them, and saves them for the owner alone",
    () =>
      Effect.gen(function* () {
        const { exited, hermes, home, screen, type, until, url, written } = yield* opened("")
        yield* until("No model is set up yet")
        yield* until("Provider")
        yield* type("your own\r")
        yield* until("Address of the API")
        yield* type(`${url}/v1\r`)
        yield* until("API key for")
        yield* type("wrong-key-123\r")
        yield* until("Model (2 listed)")
        yield* type("\r")
        yield* until("Not saved:")
        assert.isFalse(existsSync(join(home, "config.yaml")))
        // Only its prompt hides what is typed.
        yield* until("API key for")
        yield* type("right-key-123\r")
        yield* until("Model (2 listed)")
        yield* type("tiny\r")
        yield* until("is the main model now")
        // The conversation begins with it.
        yield* until("tiny-1 · ask")
        yield* type("/quit\r")
        assert.strictEqual(yield* exited, 0)
        assert.notInclude(written(), "right-key-123", screen())
        assert.notInclude(readFileSync(join(home, "config.yaml"), "utf8"), "right-key-123")
        assert.include(readFileSync(join(home, ".env"), "utf8"), "right-key-123")
        for (const file of ["config.yaml", ".env"]) assert.strictEqual(statSync(join(home, file)).mode & 0o777, 0o600)
        const asked = yield* hermes(["-Q", "-q", "go"])
        assert.deepInclude(asked, { code: 0, stdout: "ok\n" })
      }).pipe(Effect.scoped)
  )

  it.live("goes on with the stand-in by one key, and changes nothing", () =>
    Effect.gen(function* () {
      const { exited, home, type, until } = yield* opened("")
      yield* until("Provider")
      yield* type("\u0003")
      yield* until("Nothing was changed")
      yield* until("offline · ask")
      yield* type("/quit\r")
      assert.strictEqual(yield* exited, 0)
      assert.isFalse(existsSync(join(home, "config.yaml")))
    }).pipe(Effect.scoped)
  )

  it.live("is left by Ctrl+C with nothing changed", () =>
    Effect.gen(function* () {
      const { exited, home, type, until } = yield* opened("model")
      yield* until("Provider")
      yield* type("\u0003")
      assert.strictEqual(yield* exited, 130)
      assert.isFalse(existsSync(join(home, "config.yaml")))
    }).pipe(Effect.scoped)
  )
})
