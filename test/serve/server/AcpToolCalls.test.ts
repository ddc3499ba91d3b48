// Calls that run while the editor looks on, by the official client library of ACP: live output, cancellations,
// permissions for good.
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import { existsSync, readFileSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import * as acpEditor from "../../support/acpEditor.ts"
import { until } from "../../support/servedAgent.ts"
import { usable, world, type World } from "../../support/servedEditor.ts"

const { say } = acpEditor

/** Says its process, and waits for a file. */
const waiting = "echo $$ > pid; echo begun; while [ ! -e go ]; do sleep 0.05; done; echo ended"

const plays = {
  "run it": [{ calls: [["terminal", { command: waiting }]] as const }, { text: "It ran." }],
  "remove it": [{ calls: [["terminal", { command: "rm -rf ../elsewhere" }]] as const }, { text: "Done with it." }],
  hello: [{ text: "Hello." }]
}

const updatesOf = ({ of, sessionId }: World) => of(sessionId, "tool_call_update")

/** Texts of the content of each update that has one. */
const contents = (world: World): ReadonlyArray<string> =>
  updatesOf(world).flatMap(
    ({ content }) =>
      content?.flatMap((one) => (one.type === "content" && one.content.type === "text" ? [one.content.text] : [])) ?? []
  )

const isRunning = (pid: number): boolean => {
  try {
    return process.kill(pid, 0)
  } catch {
    return false
  }
}

const begun = async (world: World): Promise<number> => {
  const file = join(world.cwd, "pid")
  await until(() => existsSync(file) && readFileSync(file, "utf8").endsWith("\n"))
  return Number(readFileSync(file, "utf8"))
}

describe("a command over ACP", () => {
  it.live("shows its output while it runs, and all of it at its end", () =>
    Effect.gen(function* () {
      const editor = yield* world(plays, {}, "yolo")
      const { ask, cwd, sessionId } = editor
      yield* Effect.promise(async () => {
        const answer = ask("session/prompt", { sessionId, prompt: say("run it") })
        await until(() => contents(editor).length > 0)
        assert.deepStrictEqual(contents(editor), ["begun\n"])
        assert.notInclude(
          updatesOf(editor).map(({ status }) => status),
          "completed"
        )
        writeFileSync(join(cwd, "go"), "")
        assert.strictEqual((await answer).stopReason, "end_turn")
        assert.strictEqual(contents(editor).at(-1), "begun\nended")
        assert.strictEqual(updatesOf(editor).at(-1)?.status, "completed")
        await usable(editor)
      })
    })
  )

  it.live("ends with a client that hangs up in the middle of it", () =>
    Effect.gen(function* () {
      const editor = yield* world(plays, {}, "yolo")
      const { ask, hangUp, served, sessionId } = editor
      const pid = yield* Effect.promise(async () => {
        void ask("session/prompt", { sessionId, prompt: say("run it") }).catch(() => undefined)
        const pid = await begun(editor)
        await hangUp()
        return pid
      })
      yield* Fiber.join(served)
      yield* Effect.promise(() => until(() => !isRunning(pid)))
    })
  )
})

describe("permissions for good over ACP", () => {
  it.live("name what they hold for, and are asked for once", () =>
    Effect.gen(function* () {
      const editor = yield* world(plays)
      const { answers, ask, asked, sessionId } = editor
      yield* Effect.promise(async () => {
        answers.push("session")
        for (const _ of [1, 2]) await ask("session/prompt", { sessionId, prompt: say("remove it") })
        assert.lengthOf(asked, 1)
        const offered = asked[0]?.options.map(({ kind, optionId }) => [optionId.split(":")[0], kind])
        assert.deepStrictEqual(
          offered?.filter(([id]) => id === "once" || id === "deny"),
          [
            ["once", "allow_once"],
            ["deny", "reject_once"]
          ]
        )
        assert.isTrue(
          offered?.filter(([id]) => id === "session" || id === "always").every(([, kind]) => kind === "allow_always")
        )
        assert.include(asked[0]?.options.find(({ optionId }) => optionId === "session")?.name, "rm -rf ../elsewhere")
        assert.deepStrictEqual(
          updatesOf(editor)
            .filter(({ status }) => status === "completed" || status === "failed")
            .map(({ status }) => status),
          ["completed", "completed"]
        )
        await usable(editor)
      })
    })
  )

  it.live("an option that was not offered is a refusal, and the next prompt is asked about again", () =>
    Effect.gen(function* () {
      const editor = yield* world(plays)
      const { answers, ask, asked, sessionId } = editor
      yield* Effect.promise(async () => {
        answers.push("forever", "always:nothing:more")
        for (const count of [1, 2]) {
          await ask("session/prompt", { sessionId, prompt: say("remove it") })
          assert.lengthOf(asked, count)
          assert.strictEqual(updatesOf(editor).at(-1)?.status, "failed")
        }
        await usable(editor)
      })
    })
  )
})
