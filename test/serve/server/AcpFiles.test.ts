// Files over ACP: a client whose file system refuses or never answers, and the differences that it is shown.
import * as acp from "@agentclientprotocol/sdk/unstable"
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as TestClock from "effect/testing/TestClock"
import { readFileSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import * as AcpClient from "../../../src/serve/server/acp/AcpClient.ts"
import * as acpEditor from "../../support/acpEditor.ts"
import { until } from "../../support/servedAgent.ts"
import { usable, world } from "../../support/servedEditor.ts"

const { say } = acpEditor

/** The files of a client by the official library, which answers as it is told to. */
const filesOf = (answer: (signal: AbortSignal) => Promise<{ content: string }>) => {
  const toEditor = new TransformStream<Uint8Array, Uint8Array>()
  const toAgent = new TransformStream<Uint8Array, Uint8Array>()
  acp
    .client({ name: "editor" })
    .onRequest(acp.CLIENT_METHODS.fs_read_text_file, ({ signal }) => answer(signal))
    .onRequest(acp.CLIENT_METHODS.fs_write_text_file, async ({ signal }) => {
      await answer(signal)
      return {}
    })
    .connect(acp.ndJsonStream(toAgent.writable, toEditor.readable))
  const { client } = acp.agent({ name: "agent" }).connect(acp.ndJsonStream(toEditor.writable, toAgent.readable))
  const files = AcpClient.makeFiles({
    client,
    methods: acp.CLIENT_METHODS,
    capabilities: { fs: { readTextFile: true, writeTextFile: true } },
    sessionId: "s"
  })
  return {
    read: files.read?.("/a") ?? Effect.die("no read"),
    write: files.write?.("/a", "text") ?? Effect.die("no write")
  }
}

describe("files of a client", () => {
  it.effect("that refuses them are an error that says so", () =>
    Effect.gen(function* () {
      const { read, write } = filesOf(() => Promise.reject(acp.RequestError.resourceNotFound("/a")))
      for (const work of [read, write]) assert.include((yield* Effect.flip(work)).message, "The client refused fs/")
    })
  )

  it.effect("that never answers are waited for ten seconds, and the request is taken back", () =>
    Effect.gen(function* () {
      for (const kind of ["read", "write"] as const) {
        let [asked, takenBack] = [0, 0]
        const files = filesOf(
          (signal) =>
            new Promise((resolve) => {
              asked++
              signal.addEventListener("abort", () => {
                takenBack++
                resolve({ content: "late" })
              })
            })
        )
        const fiber = yield* Effect.forkChild(Effect.flip<unknown, AcpClient.ClientRefused, never>(files[kind]))
        yield* Effect.promise(() => until(() => asked === 1))
        yield* TestClock.adjust("10 seconds")
        assert.include((yield* Fiber.join(fiber)).message, "it did not answer within 10 s")
        yield* Effect.promise(() => until(() => takenBack === 1))
        // It is asked for no other file for a minute, and then again.
        yield* TestClock.adjust("59 seconds")
        for (const work of [files.read, files.write])
          assert.include(
            (yield* Effect.flip<unknown, AcpClient.ClientRefused, never>(work)).message,
            "it did not answer within 10 s"
          )
        assert.strictEqual(asked, 1)
        yield* TestClock.adjust("1 seconds")
        yield* Effect.forkChild(files[kind])
        yield* Effect.promise(() => until(() => asked === 2))
      }
    })
  )
})

describe("differences over ACP", () => {
  it.live("are those of a new file and of an edit; a failed edit has its error", () =>
    Effect.gen(function* () {
      const editor = yield* world(
        {
          work: [
            { calls: [["write_file", { path: "new.txt", content: "one\ntwo\n" }, "c1"]] },
            { calls: [["patch", { path: "old.txt", old_string: "b", new_string: "B" }, "c2"]] },
            { calls: [["patch", { path: "old.txt", old_string: "nowhere", new_string: "x" }, "c3"]] },
            { text: "Done." }
          ],
          hello: [{ text: "Hello." }]
        },
        {},
        "yolo"
      )
      const { ask, cwd, of, sessionId } = editor
      yield* Effect.promise(async () => {
        writeFileSync(join(cwd, "old.txt"), "a\nb\nc\n")
        await ask("session/prompt", { sessionId, prompt: say("work") })
        assert.strictEqual(readFileSync(join(cwd, "old.txt"), "utf8"), "a\nB\nc\n")
        const ends = of(sessionId, "tool_call_update").filter(
          ({ status }) => status === "completed" || status === "failed"
        )
        assert.deepStrictEqual(
          ends.map(({ content, locations, status, toolCallId }) => [
            toolCallId,
            status,
            content?.map(({ type }) => type),
            locations?.map(({ line }) => line)
          ]),
          [
            ["c1", "completed", ["diff"], [1]],
            ["c2", "completed", ["diff"], [1]],
            ["c3", "failed", ["content"], undefined]
          ]
        )
        assert.deepStrictEqual(ends[0]?.content, [{ type: "diff", path: join(cwd, "new.txt"), newText: "one\ntwo\n" }])
        assert.deepStrictEqual(ends[1]?.content, [
          { type: "diff", path: join(cwd, "old.txt"), oldText: "a\nb\nc\n", newText: "a\nB\nc\n" }
        ])
        await usable(editor)
      })
    })
  )
})
