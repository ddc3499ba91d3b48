// Cancellations of calls over ACP, by the official client library: what runs, what waits for a permission, what never
// answers.
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { existsSync, readFileSync } from "node:fs"
import { join } from "node:path"
import * as acpEditor from "../../support/acpEditor.ts"
import { until } from "../../support/servedAgent.ts"
import { usable, world, type World } from "../../support/servedEditor.ts"

const { say } = acpEditor

/** Says its process in a file of a name, writes a line, and never ends. */
const endless = (name: string): string => `echo $$ > ${name}; echo begun ${name}; while :; do sleep 0.05; done`

/** As {@link endless}, and takes no notice of a request to end. */
const stubborn = `trap '' TERM INT HUP; ${endless("stubborn")}`

const plays = {
  "run one": [{ calls: [["terminal", { command: endless("one") }, "c1"]] as const }, { text: "It ran." }],
  "run two": [
    {
      calls: [
        ["terminal", { command: endless("one") }, "c1"],
        ["terminal", { command: endless("two") }, "c2"]
      ] as const
    },
    { text: "They ran." }
  ],
  "run it stubbornly": [{ calls: [["terminal", { command: stubborn }, "c1"]] as const }, { text: "It ran." }],
  "quick, then slow": [
    { calls: [["terminal", { command: "echo quick" }, "c1"]] as const },
    { calls: [["terminal", { command: endless("one") }, "c2"]] as const },
    { text: "They ran." }
  ],
  "remove it": [
    { calls: [["terminal", { command: "rm -rf ../elsewhere" }, "c1"]] as const },
    { text: "Done with it." }
  ],
  hang: [{ calls: [["stuck", {}, "c1"]] as const }, { text: "It ended." }],
  hello: [{ text: "Hello." }]
}

const isRunning = (pid: number): boolean => {
  try {
    return process.kill(pid, 0)
  } catch {
    return false
  }
}

/** Waits for the command that says its process in a file. */
const begun = async ({ cwd }: World, name: string): Promise<number> => {
  const file = join(cwd, name)
  await until(() => existsSync(file) && readFileSync(file, "utf8").endsWith("\n"))
  return Number(readFileSync(file, "utf8"))
}

/** The last message of the agent on the wire. */
const last = ({ wire }: World): object => JSON.parse(wire().trimEnd().split("\n").at(-1) ?? "")

/** The last status that the client was told of each call. */
const endsOf = (world: World): Readonly<Record<string, string>> => {
  const ends: Record<string, string> = {}
  for (const [, update] of world.updates) {
    if ((update.sessionUpdate === "tool_call" || update.sessionUpdate === "tool_call_update") && update.status != null)
      ends[update.toolCallId] = update.status
  }
  return ends
}

/** A way to end a prompt: its answer is compared with what is expected, and the session can be used then. */
interface Cancellation {
  readonly expected: unknown
  readonly act: (world: World, text: string, ready: () => Promise<unknown>) => Promise<unknown>
  readonly reopen?: (world: World) => Promise<unknown>
}

const cancellations: Readonly<Record<string, Cancellation>> = {
  "session/cancel": {
    expected: "cancelled",
    act: async ({ ask, connection, sessionId }, text, ready) => {
      const answer = ask("session/prompt", { sessionId, prompt: say(text) })
      await ready()
      await connection.agent.notify("session/cancel", { sessionId })
      return (await answer).stopReason
    }
  },
  "$/cancel_request": {
    expected: -32_800,
    act: async ({ connection, failing, sessionId }, text, ready) => {
      const abort = new AbortController()
      const answer = failing(
        connection.agent.request(
          "session/prompt",
          { sessionId, prompt: say(text) },
          { cancellationSignal: abort.signal }
        )
      )
      await ready()
      abort.abort()
      return (await answer).code
    }
  },
  "session/close": {
    expected: "cancelled",
    act: async ({ ask, sessionId }, text, ready) => {
      const answer = ask("session/prompt", { sessionId, prompt: say(text) })
      await ready()
      await ask("session/close", { sessionId })
      return (await answer).stopReason
    },
    reopen: ({ ask, cwd, sessionId }) => ask("session/resume", { sessionId, cwd, mcpServers: [] })
  }
}

for (const [method, { act, expected, reopen }] of Object.entries(cancellations)) {
  describe.concurrent(`prompts that are ended by ${method}`, () => {
    const cases: Readonly<
      Record<
        string,
        {
          readonly prompt: string
          readonly names: ReadonlyArray<string>
          readonly ends: Readonly<Record<string, string>>
        }
      >
    > = {
      "ends a command": { prompt: "run one", names: ["one"], ends: { c1: "failed" } },
      "ends a command that a step without one came before": {
        prompt: "quick, then slow",
        names: ["one"],
        ends: { c1: "completed", c2: "failed" }
      },
      "ends two calls in flight": { prompt: "run two", names: ["one"], ends: { c1: "failed", c2: "failed" } },
      "ends a command that takes no notice": {
        prompt: "run it stubbornly",
        names: ["stubborn"],
        ends: { c1: "failed" }
      },
      "gives up a call that hangs": { prompt: "hang", names: [], ends: { c1: "failed" } }
    }
    for (const [name, { ends, names, prompt }] of Object.entries(cases)) {
      it.live(`${name}, tells it as failed before the answer, and the session answers the next`, () =>
        Effect.gen(function* () {
          const editor = yield* world(plays, {}, "yolo")
          yield* Effect.promise(async () => {
            const pids: Array<number> = []
            const ready = async () => {
              for (const one of names) pids.push(await begun(editor, one))
              await until(() => Object.values(endsOf(editor)).includes("in_progress"))
            }
            assert.strictEqual(await act(editor, prompt, ready), expected)
            assert.doesNotHaveAnyKeys(last(editor), ["method"], "the answer is the last thing said")
            assert.deepStrictEqual(endsOf(editor), ends)
            await until(() => !pids.some(isRunning))
            await reopen?.(editor)
            await usable(editor)
          })
        })
      )
    }

    it.live("ends a call that waits for a permission, whose request is taken back", () =>
      Effect.gen(function* () {
        const editor = yield* world(plays)
        const { answers, asked, takenBack } = editor
        yield* Effect.promise(async () => {
          answers.push("hold")
          assert.strictEqual(await act(editor, "remove it", () => until(() => asked.length === 1)), expected)
          assert.deepStrictEqual(endsOf(editor), { c1: "failed" })
          await until(() => takenBack() === 1)
          await reopen?.(editor)
          await usable(editor)
        })
      })
    )
  })
}
