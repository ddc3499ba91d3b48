// The real program, whose key has no shape that anybody knows: whatever a file, a command or the model itself makes of
// it, it is in nothing that the program writes, sends or keeps.
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { chmodSync, readdirSync, readFileSync } from "node:fs"
import { join } from "node:path"
import * as HttpServer from "../../models/provider/HttpServer.ts"
import { machine, sessionIdOf } from "../../support/hermes.ts"
import { encoded } from "../../support/plantedKeys.ts"
import { protocols } from "../../support/wireModel.ts"

/** One for each place that a value can come from. */
const held = {
  settings: "Kq7vWn2pXr9-settings-tB4mZc6y",
  file: "Jd5hRf8sLg3-dotenv-uN1kVx0w",
  environment: "Pz4eTy6oQi2-process-aH9jMb7s"
}

const bytes = (text: string): string => text.replaceAll(/\s/g, "")

/** The forms of the values that stand in a text, by name. */
const found = (text: string): ReadonlyArray<string> => {
  const whole = bytes(text)
  return Object.entries(held).flatMap(([name, value]) =>
    Object.entries(encoded).flatMap(([form, encode]) => {
      const made = bytes(encode(value))
      // Ends of base64 are letters of what stands beside the value, too.
      const core = /JSON/.test(form) ? value : made.slice(4, -6)
      return whole.includes(core) ? [`${name}, ${form}`] : []
    })
  )
}

const filesOf = (directory: string): ReadonlyArray<string> =>
  readdirSync(directory, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map(({ name, parentPath }) => join(parentPath, name))

const everything = Object.entries(held)
  .flatMap(([name, value]) => Object.entries(encoded).map(([form, encode]) => `${name} ${form}: ${encode(value)}`))
  .join("\n")

type Answer = (
  request: { readonly body: string },
  response: Parameters<Parameters<typeof HttpServer.make>[0]>[1]
) => unknown

const user = (answer: Answer) =>
  Effect.gen(function* () {
    const made = yield* machine
    const sent: Array<string> = []
    const server = yield* HttpServer.make(({ body, method }, response) => {
      if (method !== "POST") return HttpServer.json(response, 404, { error: { message: "nothing here" } })
      sent.push(body)
      return answer({ body }, response)
    })
    const hook = made.keep(
      "hook.sh",
      `#!/bin/sh\ncat >> ${join(made.cwd, "hooks.log")}\necho >> ${join(made.cwd, "hooks.log")}\n`
    )
    chmodSync(hook, 0o700)
    const events = [
      "pre_api_request",
      "post_api_request",
      "api_request_error",
      "pre_tool_call",
      "post_tool_call",
      "post_llm_call",
      "on_session_end"
    ]
    made.keep(".env", `SOME_SERVICE_TOKEN=${held.file}\n`)
    made.keep(
      "config.yaml",
      [
        "model:",
        "  provider: custom",
        "  default: m",
        `  base_url: ${server.url}/v1`,
        `  api_key: ${held.settings}`,
        "  context_length: 100000",
        "network:",
        "  stream_retries: 0",
        "agent:",
        "  api_max_retries: 1",
        "plugins:",
        "  enabled: [observability/trace]",
        "hooks:",
        ...events.flatMap((event) => [`  ${event}:`, `    - command: ${hook}`]),
        ""
      ].join("\n")
    )
    const env = {
      OTHER_SERVICE_TOKEN: held.environment,
      HERMES_ACCEPT_HOOKS: "1",
      HERMES_NEMO_RELAY_ATOF_ENABLED: "1",
      HERMES_NEMO_RELAY_ATOF_OUTPUT_DIRECTORY: join(made.cwd, "atof"),
      HERMES_NEMO_RELAY_ATIF_ENABLED: "1",
      HERMES_NEMO_RELAY_ATIF_OUTPUT_DIRECTORY: join(made.cwd, "atif")
    }
    return { ...made, sent, program: (...args: ReadonlyArray<string>) => made.hermes(args, { env }) }
  })

/** Names of files whose bytes hold a value, in any form. Those that the user wrote hold them. */
const leaking = (home: string, cwd: string): ReadonlyArray<string> =>
  [...filesOf(home), ...filesOf(cwd)]
    .filter((file) => !/(?:config\.yaml|\/\.env|planted\.txt)$/.test(file))
    .flatMap((file) => found(readFileSync(file, "latin1")).map((form) => `${file}: ${form}`))

describe("what the program keeps secret", () => {
  for (const format of ["text", "stream-json"] as const) {
    it.live(`shows in no sink when a file and the model repeat it in every form (${format})`, () =>
      Effect.gen(function* () {
        const { cwd, home, program, put, sent } = yield* user(({ body }, response) => {
          const chat = protocols.chat_completions
          const step = !body.includes('"role":"tool"')
            ? { calls: [{ id: "c1", name: "read_file", args: JSON.stringify({ path: "planted.txt" }) }] }
            : { text: `I found this.\n${everything}\nThat is all.` }
          if (JSON.parse(body).stream === true) chat.stream(step, response)
          else
            HttpServer.json(
              response,
              200,
              chat.whole(JSON.parse(body).tools === undefined ? { text: everything } : step)
            )
        })
        put("planted.txt", everything)
        const view = format === "text" ? ["-v"] : ["--format", "stream-json"]
        const { code, stderr, stdout } = yield* program(
          "chat",
          ...view,
          "--record",
          join(cwd, "cassette.jsonl"),
          "-q",
          "read planted.txt"
        )
        assert.strictEqual(code, 0, stderr)
        assert.include(stdout, "That is all.")
        assert.isAtLeast(sent.length, 2)
        assert.include(sent.slice(1).join(""), "percent-encoded")
        assert.deepStrictEqual(found(stdout), [], "stdout")
        assert.deepStrictEqual(found(stderr), [], "stderr")
        assert.deepStrictEqual(found(sent.join("\n")), [], "requests to the model")
        assert.deepStrictEqual(leaking(home, cwd), [], "files")
        const id = sessionIdOf(stderr)
        for (const command of [
          ["sessions", "list"],
          ["sessions", "export", "-"],
          ...(id === "" ? [] : [["sessions", "show", id]])
        ]) {
          const shown = yield* program(...command)
          assert.deepStrictEqual(found(shown.stdout + shown.stderr), [], command.join(" "))
        }
        assert.deepStrictEqual(leaking(home, cwd), [], "files after an export")
        // Every sink was written to, so that nothing is clean for being empty.
        const written = [...filesOf(home), ...filesOf(cwd)].join("\n")
        for (const sink of ["hooks.log", "cassette.jsonl", "state.db", "/atof/", "/atif/"])
          assert.include(written, sink)
      })
    )
  }

  it.live("shows in no sink when the provider's refusal repeats it", () =>
    Effect.gen(function* () {
      const { cwd, home, program } = yield* user((_, response) =>
        HttpServer.json(response, 401, {
          error: {
            message: `Incorrect API key provided: ${held.settings}. ${encoded["base64, alone"]?.(held.settings)} ${held.environment}`,
            type: "invalid_request_error"
          }
        })
      )
      for (const view of [["-v"], ["-Q"], ["--format", "stream-json"]]) {
        const { code, stderr, stdout } = yield* program("chat", ...view, "-q", "hello")
        assert.notStrictEqual(code, 0)
        assert.match(stdout + stderr, /Incorrect API key/)
        assert.deepStrictEqual(found(stdout + stderr), [], view.join(" "))
      }
      assert.deepStrictEqual(leaking(home, cwd), [])
    })
  )
})
