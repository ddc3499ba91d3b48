// What the native library exports of a run that repeats every value that the program holds: nothing of them.
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { existsSync, readdirSync, readFileSync } from "node:fs"
import { join } from "node:path"
import { everything, plantedText } from "../support/secretSearch.ts"
import { call, user } from "../support/secretWorld.ts"
import { preload } from "./support/library.ts"

const exporters = (directory: string) => `version = 1

[[components]]
kind = "observability"
enabled = true

[components.config]
version = 1

[components.config.atof]
enabled = true
output_directory = "${join(directory, "atof")}"
filename = "events.jsonl"
mode = "overwrite"

[components.config.atif]
enabled = true
output_directory = "${join(directory, "atif")}"
filename_template = "trajectory-{session_id}.json"
agent_name = "Hermes Agent"
agent_version = "local"
`

/** Model and tool calls are executed by the library. */
const managed = `
[[components]]
kind = "adaptive"
enabled = true

[components.config.tool_parallelism]
mode = "observe_only"
`

const read = (directory: string): string =>
  existsSync(directory)
    ? readdirSync(directory)
        .map((name) => readFileSync(join(directory, name), "utf8"))
        .join("\n")
    : ""

describe("the exports of NeMo Relay", () => {
  for (const [way, more] of [
    ["told of calls", ""],
    ["executing them", managed]
  ] as const) {
    it.live(`hold no value that the program holds: ${way}`, () =>
      Effect.gen(function* () {
        const { at, hermes, leaks, put, search, searchFiles } = yield* user({
          settings: ["plugins:", "  enabled: [observability/nemo_relay]"],
          turnOf: ({ messages }) =>
            messages.some(({ role }) => role === "tool")
              ? { thought: everything, text: `Here it is.\n${everything}` }
              : {
                  thought: everything,
                  text: everything,
                  calls: [
                    call("c1", "read_file", { path: "planted/all.txt" }),
                    call("c2", "terminal", { command: `cat <<'END'\n${everything}\nEND\nexit 3` })
                  ]
                }
        })
        put("planted/all.txt", everything)
        const toml = put("plugins.toml", exporters(at("native")) + more)
        const { code, stderr, stdout } = yield* hermes(["chat", "-v", "--yolo", "-q", `read it ${plantedText(0, 5)}`], {
          env: { NODE_OPTIONS: preload, HERMES_NEMO_RELAY_PLUGINS_TOML: toml }
        })
        assert.strictEqual(code, 0, stderr.slice(-500))
        search("stdout", stdout)
        search("atof", read(at("native/atof")))
        search("atif", read(at("native/atif")))
        assert.include(stdout, "Here it is.")
        // The prompt is typed: what the program does not hold stays as typed in the session alone.
        searchFiles()
        assert.deepStrictEqual(
          leaks().filter((leak) => !/state\.db\S*: .*, not held/.test(leak)),
          []
        )
      })
    )
  }
})
