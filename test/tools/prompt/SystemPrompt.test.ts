// Layers of a system prompt: their order, what each depends on, and that a session keeps its own.
import { assert, describe, it } from "@effect/vitest"
import * as NodeServices from "@effect/platform-node/NodeServices"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as TestClock from "effect/testing/TestClock"
import { writeFileSync } from "node:fs"
import { join } from "node:path"
import * as Agent from "../../../src/agent/Agent.ts"
import * as SystemPrompt from "../../../src/tools/prompt/SystemPrompt.ts"
import { Provider } from "../../../src/models/provider/Provider.ts"
import * as Scripted from "../../../src/models/provider/Scripted.ts"
import * as Runtime from "../../../src/program/Runtime.ts"
import * as SessionStore from "../../../src/store/SessionStore.ts"
import { sessionIdOf } from "../../support/hermes.ts"
import { machine } from "../../support/hermesInProcess.ts"
import { temporaryDirectory } from "../../support/temporaryDirectory.ts"

const parts = (given: Partial<SystemPrompt.Parts> = {}): SystemPrompt.Parts => ({
  cwd: "/w",
  isChild: false,
  tools: new Set(),
  platform: "library",
  provider: "openai",
  model: "some-model",
  sources: {},
  ...given
})
const names = (given: Partial<SystemPrompt.Parts>) =>
  Effect.map(SystemPrompt.buildLayers(parts(given)), (layers) => layers.map(({ name }) => name))
const advice = (enforcement: SystemPrompt.Enforcement, model: string, tools: ReadonlyArray<string> = ["terminal"]) =>
  Effect.map(names({ enforcement, model, tools: new Set(tools) }), (found) => found.includes("model"))

describe("layers of a system prompt", () => {
  it.effect("stand in the order of the contract, the most stable first; empty ones are left out", () =>
    Effect.gen(function* () {
      yield* TestClock.setTime(Date.UTC(2026, 1, 3))
      const layers = yield* SystemPrompt.buildLayers(
        parts({
          tools: new Set(["memory", "terminal"]),
          model: "gpt-9",
          platform: "cli",
          instructions: " the caller's ",
          sources: {
            identity: "me",
            help: "help",
            skills: "skills",
            environment: ["wsl", "hint"],
            project: "project",
            memory: ["m", " ", "u"]
          }
        })
      )
      assert.deepStrictEqual(
        layers.map(({ name }) => name),
        [
          "identity",
          "help",
          "tools",
          "model",
          "skills",
          "environment",
          "platform",
          "instructions",
          "project",
          "memory",
          "session"
        ]
      )
      const text = (name: string) => layers.find((layer) => layer.name === name)?.text
      assert.strictEqual(text("environment"), "wsl\n\nhint")
      assert.strictEqual(text("instructions"), "the caller's")
      assert.strictEqual(text("memory"), "m\n\nu")
      assert.strictEqual(
        text("session"),
        "Working directory: /w\nConversation started: 2026-02-03\nModel: gpt-9 (openai)"
      )
      assert.strictEqual(SystemPrompt.render(layers), layers.map((layer) => layer.text).join("\n\n"))
      assert.deepStrictEqual(yield* names({}), ["identity", "session"])
    })
  )

  it.effect("advice for a tool is there with the tool; for a model as the setting says (case 31)", () =>
    Effect.gen(function* () {
      assert.notInclude(yield* names({ tools: new Set(["terminal"]) }), "tools")
      assert.include(yield* names({ tools: new Set(["memory"]) }), "tools")
      assert.isFalse(yield* advice("auto", "claude-opus-4-6"))
      assert.isTrue(yield* advice("auto", "Qwen3-Coder"))
      assert.isTrue(yield* advice(true, "claude-opus-4-6"))
      assert.isFalse(yield* advice(false, "gpt-9"))
      assert.isTrue(yield* advice(["foo"], "my-Foo-1"))
      assert.isFalse(yield* advice(["foo"], "gpt-9"))
      assert.isFalse(yield* advice(true, "gpt-9", []))
    })
  )
})

describe("the system prompt of a session", () => {
  it.effect("is what it was when the session began: files that change later, and another folder, change nothing", () =>
    Effect.gen(function* () {
      const cwd = yield* temporaryDirectory
      const elsewhere = yield* temporaryDirectory
      const database = join(yield* temporaryDirectory, "state.db")
      writeFileSync(join(cwd, "AGENTS.md"), "first words")
      const prompts: Array<string> = []
      const run = (prompt: string, directory: string) =>
        Effect.gen(function* () {
          const script = yield* Scripted.make([Scripted.complete("ok")])
          yield* Effect.provide(
            Agent.run({ prompt, sessionId: "s1", cwd: directory }),
            Runtime.layer({
              provider: Layer.succeed(Provider, script.provider),
              store: SessionStore.layerSqlite({ path: database })
            }).pipe(Layer.provide(SystemPrompt.layerSources({ project: true })), Layer.provide(NodeServices.layer))
          )
          const [call] = yield* script.inspection.calls
          prompts.push(JSON.stringify(call?.messages[0]))
        })
      yield* run("one", cwd)
      writeFileSync(join(cwd, "AGENTS.md"), "other words")
      yield* run("two", cwd)
      yield* run("three", elsewhere)
      assert.include(prompts[0], "first words")
      assert.deepStrictEqual(prompts, [prompts[0], prompts[0], prompts[0]])
    })
  )
})

describe("hermes prompt", () => {
  it.live("shows the prompt of a new session, that of a stored one, and the weight of each layer", () =>
    Effect.gen(function* () {
      const { cwd, hermes, home, keep } = yield* machine
      keep("SOUL.md", "You are Ada, and you answer in rhymes.")
      writeFileSync(join(cwd, "AGENTS.md"), "Use tabs.")
      const fresh = yield* hermes(["prompt", "show"])
      assert.strictEqual(fresh.code, 0)
      assert.match(fresh.stdout, /^You are Ada, and you answer in rhymes\.\n\nWhen the user asks about Hermes itself/)
      assert.include(fresh.stdout, "## AGENTS.md\n\nUse tabs.")

      yield* hermes(["-Q", "-q", "Reply with exactly: hi"])
      writeFileSync(join(cwd, "AGENTS.md"), "Use blanks.")
      const [stored] = JSON.parse((yield* hermes(["sessions", "list", "--json"])).stdout)
      const shown = yield* hermes(["prompt", "show", stored.id])
      assert.include(shown.stdout, "Use tabs.")
      assert.notInclude(shown.stdout, "Use blanks.")

      const { layers, total } = JSON.parse((yield* hermes(["prompt", "size", "--json"])).stdout)
      assert.deepStrictEqual(layers[0], { layer: "identity", characters: 38, tokens: 10 })
      assert.strictEqual(total.tokens, Math.ceil(total.characters / 4))
      assert.match((yield* hermes(["prompt", "size"])).stdout, /^identity +10 +38$/m)

      keep(
        "turns.yaml",
        `turns:
  - tool_calls: [{ name: memory, arguments: { action: add, target: user, content: is called Ada } }]
  - text: noted
`
      )
      const noted = yield* hermes(["-Q", "-q", "My name is Ada.", "--script", join(home, "turns.yaml")])
      assert.deepInclude(noted, { code: 0, stdout: "noted\n" })
      assert.include(
        (yield* hermes(["prompt", "show"])).stdout,
        "# USER PROFILE (who the user is) [1% — 13/1,375 chars]\n\nis called Ada"
      )

      const bare = yield* hermes(["prompt", "show", "--ignore-rules"])
      assert.notMatch(bare.stdout, /Ada|AGENTS\.md|USER PROFILE/)
      assert.include(bare.stdout, "You are Hermes")
      const named = yield* hermes(["-Q", "-q", "Reply with exactly: hi", "--pass-session-id", "--ignore-rules"])
      const id = sessionIdOf(named.stderr)
      const own = yield* hermes(["prompt", "show", id])
      assert.include(own.stdout, `\nSession ID: ${id}\n`)
      assert.notInclude(own.stdout, "Ada")
      const again = yield* hermes(["-Q", "-q", "Reply with exactly: hi", "--resume", id, "--ignore-rules"])
      assert.include(again.stderr, `Warning: --ignore-rules has no effect: session ${id} keeps its system prompt\n`)

      const unknown = yield* hermes(["prompt", "show", "nobody"])
      assert.notStrictEqual(unknown.code, 0)
      assert.match(unknown.stderr, /^Error: [^\n]+\n$/)
    })
  )
})
