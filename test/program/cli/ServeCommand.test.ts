// `hermes serve` as a user has it: the agent, or rollouts; what is refused; its end by a signal.
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { chmodSync, existsSync, statSync } from "node:fs"
import { join } from "node:path"
import OpenAI, { APIError } from "openai"
import { machine, onceSaid, serverKey } from "../../support/hermes.ts"
import * as playedModel from "../../support/playedModel.ts"

describe("hermes serve", () => {
  it.live("serves the agent of the settings, keeps its sessions, and ends by a signal without losing a request", () =>
    Effect.gen(function* () {
      const { cwd, hermes, home } = yield* machine
      const said: Array<string> = []
      const { code, stderr, stdout } = yield* hermes(["serve", "--port", "0", "--provider", "offline"], {
        onOutput: (text, child) => {
          const url = /Serving the agent at (\S+)\n/.exec(text)?.[1]
          if (url === undefined || said.length > 0) return
          said.push(url)
          const client = new OpenAI({ baseURL: url, apiKey: serverKey(home), maxRetries: 0 })
          void client.chat.completions
            .create({ model: "hermes", messages: [{ role: "user", content: "Reply exactly hello" }] })
            .then(
              ({ choices }) => said.push(choices[0]?.message.content ?? ""),
              (error: unknown) => said.push(String(error))
            )
            .finally(() => child.kill("SIGINT"))
        }
      })
      assert.deepStrictEqual([code, said.slice(1)], [0, ["hello"]], `${stdout}${stderr}`)
      assert.include(stderr, "Stopping: pending requests have 10 seconds to finish.")
      assert.match((yield* hermes(["sessions", "list", "--source", "api-server"])).stdout, /^\d{8}_\d{6}_/u)

      const rollouts = yield* hermes(["serve", "--port", "0", "--rollouts", "episodes", "--provider", "offline"], {
        onOutput: onceSaid("Episodes:", (child) => child.kill("SIGINT"))
      })
      assert.include(rollouts.stdout, "Serving rollouts of")
      assert.isTrue(existsSync(join(cwd, "episodes")))

      const refused = yield* hermes(["serve", "--parser", "qwen"])
      assert.deepStrictEqual([refused.code, refused.stderr], [2, "Error: --parser needs --rollouts DIR\n"])
      const open = yield* hermes(["serve", "--host", "0.0.0.0", "--provider", "offline"])
      assert.strictEqual(open.code, 2)
      assert.include(open.stderr, "listening on 0.0.0.0 needs a key")
    })
  )

  it.live(
    "a signal in the middle of a turn: the caller is told, nothing is left running, and the next process goes on with the session",
    () =>
      Effect.gen(function* () {
        const { hermes, home } = yield* machine
        const model = yield* playedModel.make({
          "wait for ever": [{ text: "I wait for", hangs: true }],
          "Say hello": [{ text: "Hello." }]
        })
        const route = ["--provider", "custom", "--base-url", `${model.url}/v1`, "--model", "m"]
        const env = { OPENAI_API_KEY: "k" }
        const said: Array<string> = []
        let session = ""
        const { code, stderr, stdout } = yield* hermes(["serve", "--port", "0", ...route], {
          env,
          onOutput: (text, child) => {
            const url = /Serving the agent at (\S+)\n/.exec(text)?.[1]
            if (url === undefined || said.length > 0) return
            said.push(url)
            const client = new OpenAI({ baseURL: url, apiKey: serverKey(home), maxRetries: 0 })
            const read = async () => {
              const { data, response } = await client.chat.completions
                .create({ model: "hermes", messages: [{ role: "user", content: "wait for ever" }], stream: true })
                .withResponse()
              session = response.headers.get("x-hermes-session-id") ?? ""
              let words = ""
              for await (const { choices } of data) {
                words += choices[0]?.delta.content ?? ""
                if (words !== "" && !child.killed) child.kill("SIGTERM")
              }
            }
            void read().then(
              () => said.push("ended"),
              (error: unknown) => said.push(error instanceof APIError ? String(error.code) : String(error))
            )
          }
        })
        assert.deepStrictEqual([code, said.slice(1)], [0, ["interrupted"]], `${stdout}${stderr}`)
        assert.strictEqual(model.aborted(), 1)
        const next = yield* hermes(["chat", "-q", "Say hello", "-Q", "--resume", session, ...route], { env })
        assert.deepStrictEqual([next.code, next.stdout.trim()], [0, "Hello."], next.stderr)
        const shown = yield* hermes(["sessions", "show", session])
        for (const text of ["wait for ever", "I wait for", "Hello."]) assert.include(shown.stdout, text)
      })
  )

  it.live("admits the clients that the settings name, each to its own sessions; what is no key is one line", () =>
    Effect.gen(function* () {
      const { hermes, keep, put } = yield* machine
      const keys = { alice: "al1ce-key-of-this-test", bob: "b0bby-key-of-this-test", carol: "car0l-key-of-this-test" }
      const path = put("carol.key", `${keys.carol}\n`)
      keep(
        "config.yaml",
        `server:\n  keys:\n    alice: { key: "\${ALICE}", max_sessions: 1 }\n    bob: { key_env: BOB }\n    carol: { key_file: ${path} }\n`
      )
      const env = { ALICE: keys.alice, BOB: keys.bob }
      const said: Array<unknown> = []
      const started = new Set<string>()
      const { code, stderr, stdout } = yield* hermes(["serve", "--port", "0", "--provider", "offline"], {
        env,
        onOutput: (text, child) => {
          const url = /Serving the agent at (\S+)\/v1\n/.exec(text)?.[1]
          if (url === undefined || started.has(url)) return
          started.add(url)
          const ask = async (key: string, json: unknown, more: Record<string, string> = {}) => {
            const response = await fetch(`${url}/v1/chat/completions`, {
              method: "POST",
              body: JSON.stringify(json),
              headers: { "content-type": "application/json", authorization: `Bearer ${key}`, ...more }
            })
            await response.text()
            return [response.status, response.headers.get("x-hermes-session-id") ?? ""] as const
          }
          const asked = { messages: [{ role: "user", content: "Reply exactly hello" }] }
          const play = async () => {
            for (const key of Object.values(keys)) said.push((await ask(key, asked))[0])
            const [, id] = await ask(keys.alice, asked)
            said.push((await ask(keys.bob, asked, { "x-hermes-session-id": id }))[0], (await ask("nobody", asked))[0])
          }
          void play()
            .catch((error: unknown) => said.push(String(error)))
            .finally(() => child.kill("SIGTERM"))
        }
      })
      assert.deepStrictEqual([code, said], [0, [200, 200, 200, 404, 401]], `${stdout}${stderr}`)
      for (const key of Object.values(keys)) assert.notInclude(stdout + stderr, key)
      const bySource = (source: string) =>
        Effect.map(
          hermes(["sessions", "list", "--source", source]),
          ({ stdout }) => (stdout.match(/^\d{8}_\d{6}_/gmu) ?? []).length
        )
      assert.deepStrictEqual(
        [
          yield* bySource("api-server:alice"),
          yield* bySource("api-server:bob"),
          yield* bySource("api-server:carol"),
          yield* bySource("api-server")
        ],
        [2, 1, 1, 0]
      )
      assert.notInclude((yield* hermes(["config", "show"], { env })).stdout, keys.alice)

      const refused = Effect.fnUntraced(function* (entry: string) {
        keep("config.yaml", `server:\n  keys:\n    dave: ${entry}\n`)
        const { code, stderr, stdout } = yield* hermes(["serve", "--port", "0", "--provider", "offline"])
        return [code, stdout, stderr]
      })
      assert.deepStrictEqual(yield* refused("{ key_env: NOWHERE }"), [
        2,
        "",
        "Error: server.keys.dave: the variable NOWHERE is not set: set it to the key\n"
      ])
      assert.deepStrictEqual(yield* refused(`{ key_file: ${path}.none }`), [
        2,
        "",
        `Error: server.keys.dave: ${path}.none is missing or empty: write the key into it\n`
      ])
      assert.deepStrictEqual(yield* refused("{ max_sessions: 1 }"), [
        2,
        "",
        "Error: server.keys.dave needs exactly one of key, key_env and key_file\n"
      ])
      assert.deepStrictEqual(yield* refused(`{ key: short }`), [
        2,
        "",
        'Error: the server key "dave" has fewer than 16 characters: use a long random text\n'
      ])
    })
  )

  it.live("whoever has no key of the owner is refused everything but the check of life, on the loopback too", () =>
    Effect.gen(function* () {
      const { hermes, home } = yield* machine
      const answers: Array<unknown> = []
      const started = new Set<string>()
      const play = async (url: string) => {
        const ask = (path: string, init: RequestInit = {}) =>
          fetch(url + path, init).then((response) => response.text().then(() => response))
        const json = { "content-type": "application/json" }
        const open = { method: "POST", body: JSON.stringify({ mode: "yolo" }), headers: json }
        for (const path of ["/v1/models", "/v1/sessions", "/metrics", "/openapi.json", "/mcp"])
          answers.push((await ask(path)).status)
        const refused = await ask("/v1/sessions", open)
        answers.push(refused.status, refused.headers.get("www-authenticate"))
        answers.push(
          (await ask("/v1/sessions", { ...open, headers: { ...json, authorization: "Bearer wrong" } })).status
        )
        answers.push((await ask("/health")).status)
        answers.push(
          (await ask("/v1/sessions", { ...open, headers: { ...json, authorization: `Bearer ${serverKey(home)}` } }))
            .status
        )
      }
      const serve = () =>
        hermes(["serve", "--port", "0", "--provider", "offline"], {
          onOutput: (text, child) => {
            const url = /Serving the agent at (\S+)\/v1\n/.exec(text)?.[1]
            if (url === undefined || started.has(url)) return
            started.add(url)
            void play(url)
              .catch((error: unknown) => answers.push(String(error)))
              .finally(() => child.kill("SIGTERM"))
          }
        })
      const { code, stderr, stdout } = yield* serve()
      assert.deepStrictEqual(
        [code, answers],
        [0, [401, 401, 401, 401, 401, 401, 'Bearer realm="hermes"', 401, 200, 201]],
        `${stdout}${stderr}`
      )
      const path = join(home, "server.key")
      assert.strictEqual(statSync(path).mode & 0o777, 0o600)
      const key = serverKey(home)
      assert.match(key, /^[\w-]{43}$/u)
      assert.notInclude(stdout + stderr, key)
      assert.include(stderr, path)

      chmodSync(path, 0o644)
      const readable = yield* serve()
      assert.strictEqual(readable.code, 2)
      assert.include(readable.stderr, `${path}: is open to other users of this machine`)
    })
  )
})
