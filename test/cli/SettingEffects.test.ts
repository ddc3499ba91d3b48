// Settings whose effect is small: each changes what the real program does.
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { machine } from "../support/hermes.ts"
import { sessions } from "../support/stateDatabase.ts"

describe("a setting", () => {
  it.live("agent.environment_hint is part of a new session's system prompt", () =>
    Effect.gen(function*() {
      const { hermes, home, keep, put } = yield* machine
      put("hi.yaml", "turns: [{ text: hi }]")
      keep("config.yaml", "agent: { environment_hint: This is the build machine of the lab. }\n")
      assert.deepInclude(yield* hermes(["-Q", "-q", "hi", "--script", "hi.yaml"]), { code: 0, stdout: "hi\n" })
      const [first] = yield* sessions(home)
      assert.include(first?.session.systemPrompt ?? "", "\n\nThis is the build machine of the lab.\n\n")
    }))

  it.live("plugins.hook_callback_timeout is how long a hook that may answer is waited for; 0 is no deadline", () =>
    Effect.gen(function*() {
      const { hermes, keep, put } = yield* machine
      put("run.yaml", "turns:\n  - { text: a, tool_calls: [{ name: terminal, arguments: { command: echo ran } }] }\n  - { text: done }\n")
      keep("plugins/slow/plugin.yaml", "name: slow\n")
      keep(
        "plugins/slow/index.js",
        `export const register = (ctx) => ctx.registerHook("pre_tool_call", () =>
          new Promise((resolve) => setTimeout(() => { console.error("answered"); resolve({ action: "block", message: "not today" }) }, 1500)))\n`
      )
      const run = (timeout: string) => {
        keep("config.yaml", `plugins: { enabled: [slow], hook_callback_timeout: ${timeout} }\n`)
        return hermes(["-q", "go", "--script", "run.yaml", "--format", "stream-json"])
      }
      const short = yield* run("0.2")
      assert.match(short.stderr + short.stdout, /pre_tool_call: .*slow.* took longer than 200ms/)
      const none = yield* run("0")
      assert.notMatch(none.stderr + none.stdout, /took longer/)
      assert.include(none.stdout, "not today")
    }))
})
