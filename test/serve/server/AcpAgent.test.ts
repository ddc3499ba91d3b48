// The Agent Client Protocol in this process, driven by the official client library: questions, cancellations, bad
// input.
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Option from "effect/Option"
import * as acpEditor from "../../support/acpEditor.ts"
import { until } from "../../support/servedAgent.ts"
import { held, usable, world, type World } from "../../support/servedEditor.ts"

const { say } = acpEditor

const asking = {
  "remove it": [{ calls: [["terminal", { command: "rm -rf ../elsewhere" }]] as const }, { text: "Done with it." }],
  hello: [{ text: "Hello." }]
}

describe("questions over ACP", () => {
  it.live("a cancelled prompt takes its question back, and the session answers the next", () =>
    Effect.gen(function* () {
      const editor = yield* world(asking)
      const { answers, ask, asked, connection, sessionId, takenBack } = editor
      yield* Effect.promise(async () => {
        answers.push("hold")
        const hanging = ask("session/prompt", { sessionId, prompt: say("remove it") })
        await until(() => asked.length === 1)
        await connection.agent.notify("session/cancel", { sessionId })
        assert.strictEqual((await hanging).stopReason, "cancelled")
        await until(() => takenBack() === 1)
        await usable(editor)
      })
    })
  )

  it.live("a client that hangs up during one ends every session", () =>
    Effect.gen(function* () {
      const { answers, ask, asked, hangUp, lives, served, sessionId } = yield* world(asking)
      yield* Effect.promise(async () => {
        answers.push("hold")
        void ask("session/prompt", { sessionId, prompt: say("remove it") }).catch(() => undefined)
        await until(() => asked.length === 1)
        await hangUp()
      })
      yield* Fiber.join(served)
      assert.deepInclude(yield* lives[0]?.state ?? Effect.die("no session"), { turn: undefined, questions: [] })
    })
  )

  const colour = {
    "ask me": [
      { calls: [["clarify", { question: "Which colour?", choices: ["red", "blue"] }]] as const },
      { text: "Thanks." }
    ]
  }

  it.live("a clarification is a form where the client has forms", () =>
    Effect.gen(function* () {
      const { ask, filled, forms, seen, sessionId } = yield* world(colour, { elicitation: { form: {} } })
      yield* Effect.promise(async () => {
        filled.push(
          { action: "accept", content: { choice: "blue" } },
          { action: "accept", content: { words: "green, please" } },
          { action: "decline" }
        )
        const results = async () => {
          await ask("session/prompt", { sessionId, prompt: say("ask me") })
          return JSON.parse(String(seen.at(-1)?.messages.at(-1)?.content)).user_response
        }
        assert.deepStrictEqual([await results(), await results(), await results()], ["blue", "green, please", ""])
        assert.deepInclude(forms[0], { mode: "form", message: "Which colour?", sessionId })
        assert.deepStrictEqual(
          Object.keys(
            (forms[0] as { readonly requestedSchema: { readonly properties: object } }).requestedSchema.properties
          ),
          ["choice", "words"]
        )
      })
    })
  )

  it.live("and a choice of permissions where it has none", () =>
    Effect.gen(function* () {
      const { answers, ask, asked, forms, seen, sessionId } = yield* world(colour)
      yield* Effect.promise(async () => {
        answers.push("1", "none")
        await ask("session/prompt", { sessionId, prompt: say("ask me") })
        assert.strictEqual(JSON.parse(String(seen.at(-1)?.messages.at(-1)?.content)).user_response, "blue")
        assert.deepStrictEqual(
          asked[0]?.options.map(({ name, optionId }) => [optionId, name]),
          [
            ["0", "red"],
            ["1", "blue"],
            ["none", "No answer"]
          ]
        )
        assert.strictEqual((await ask("session/prompt", { sessionId, prompt: say("ask me") })).stopReason, "end_turn")
        assert.lengthOf(forms, 0)
      })
    })
  )
})

describe("cancellations over ACP", () => {
  it.live("stop no other's turn: the prompt behind it is taken back", () =>
    Effect.gen(function* () {
      const editor = yield* world({
        theirs: [{ text: "I work for another ", hangs: true }],
        mine: [{ text: "Mine." }],
        hello: [{ text: "Hello." }]
      })
      const { aborted, ask, connection, lives, seen, sessionId, textOf } = editor
      const [live] = lives
      if (live === undefined) return assert.fail("no session")
      live.conversation.queue("theirs")
      yield* Effect.promise(async () => {
        await until(() => textOf(sessionId).includes("I work for"))
        const queued = ask("session/prompt", { sessionId, prompt: say("mine") })
        await until(() =>
          Option.isSome(
            Effect.runSync(Effect.option(Effect.filterOrFail(live.state, ({ queue }) => queue.length === 1)))
          )
        )
        await connection.agent.notify("session/cancel", { sessionId })
        assert.strictEqual((await queued).stopReason, "cancelled")
      })
      const { queue, turn } = yield* live.state
      assert.deepStrictEqual([queue, turn?.isStopping, aborted()], [[], false, 0])
      // The other's turn is stopped by a cancellation of its own, where no prompt is under way.
      yield* Effect.promise(async () => {
        await connection.agent.notify("session/cancel", { sessionId })
        await until(() => aborted() === 1)
        await usable(editor)
        assert.notInclude(JSON.stringify(seen), "mine")
      })
    })
  )

  it.live("begin nothing that waits behind the turn", () =>
    Effect.gen(function* () {
      const editor = yield* world({
        theirs: [{ text: "Theirs." }],
        mine: [{ text: "I work for this one ", hangs: true }],
        hello: [{ text: "Hello." }]
      })
      const { aborted, ask, connection, lives, seen, sessionId, textOf } = editor
      const [live] = lives
      if (live === undefined) return assert.fail("no session")
      yield* Effect.promise(async () => {
        const hanging = ask("session/prompt", { sessionId, prompt: say("mine") })
        await until(() => textOf(sessionId).includes("I work for"))
        live.conversation.queue("theirs")
        await connection.agent.notify("session/cancel", { sessionId })
        assert.strictEqual((await hanging).stopReason, "cancelled")
        await until(() => aborted() === 1)
      })
      const { queue, turn } = yield* live.state
      assert.deepStrictEqual([queue.map(({ shown }) => shown), turn], [["theirs"], undefined])
      assert.lengthOf(seen, 1)
      // They come before the next prompt.
      assert.strictEqual(
        (yield* Effect.promise(() => ask("session/prompt", { sessionId, prompt: say("hello") }))).stopReason,
        "end_turn"
      )
      yield* Effect.promise(() => until(() => textOf(sessionId).endsWith("Hello.")))
      assert.include(textOf(sessionId), "Theirs.")
    })
  )

  it.live("give up a command, such as /compact", () =>
    Effect.gen(function* () {
      const editor = yield* world(asking)
      const { ask, compacting, connection, sessionId } = editor
      yield* Effect.promise(async () => {
        const slow = ask("session/prompt", { sessionId, prompt: say("/compact") })
        await until(() => compacting() === 1)
        await connection.agent.notify("session/cancel", { sessionId })
        assert.strictEqual((await slow).stopReason, "cancelled")
        assert.strictEqual(compacting(), 0)
        await usable(editor)
      })
    })
  )
})

describe("streams over ACP", () => {
  it.live("have no secret that is split over pieces, whatever the settings say about answers", () =>
    Effect.gen(function* () {
      const places = [1, 14, held.length - 1]
      const { ask, sessionId, textOf, wire } = yield* world(
        Object.fromEntries(
          places.map((at) => [
            `at ${at}.`,
            [{ thought: `Hm ${held}`, text: [`It is ${held.slice(0, at)}`, held.slice(at), ", or not."] }]
          ])
        )
      )
      yield* Effect.promise(async () => {
        for (const at of places) await ask("session/prompt", { sessionId, prompt: say(`at ${at}.`) })
        await until(() => textOf(sessionId) === places.map(() => "It is corr…le, or not.").join(""))
        assert.strictEqual(textOf(sessionId, "agent_thought_chunk"), places.map(() => "Hm corr…le").join(""))
        assert.notInclude(wire(), held.slice(5))
      })
    })
  )
})

describe("bad input over ACP", () => {
  const lastLine = async ({ raw, wire }: World, line: string): Promise<unknown> => {
    const before = wire().length
    await raw(line)
    await until(() => wire().slice(before).includes("\n"))
    return JSON.parse(wire().slice(before).split("\n")[0] ?? "").error.code
  }
  const code = async ({ failing }: World, work: Promise<unknown>): Promise<unknown> => (await failing(work)).code
  const unknown = "20200101_000000_nobody"
  const table: Readonly<Record<string, readonly [expected: unknown, act: (world: World) => Promise<unknown>]>> = {
    "an unknown session": [
      -32_002,
      (world) => code(world, world.ask("session/prompt", { sessionId: unknown, prompt: say("x") }))
    ],
    "an unknown session that is loaded": [
      -32_002,
      (world) => code(world, world.ask("session/load", { sessionId: unknown, cwd: world.cwd, mcpServers: [] }))
    ],
    "an unknown session whose mode is set": [
      -32_002,
      (world) => code(world, world.ask("session/set_mode", { sessionId: unknown, modeId: "plan" }))
    ],
    "an unknown session that is resumed": [
      -32_002,
      (world) => code(world, world.ask("session/resume", { sessionId: unknown, cwd: world.cwd, mcpServers: [] }))
    ],
    "an unknown session that is forked": [
      -32_002,
      (world) => code(world, world.ask("session/fork", { sessionId: unknown, cwd: world.cwd, mcpServers: [] }))
    ],
    // The library takes these errors for success: it is closed, or deleted.
    "an unknown session that is closed": [
      -32_002,
      (world) =>
        lastLine(world, `{"jsonrpc":"2.0","id":"c","method":"session/close","params":{"sessionId":"${unknown}"}}`)
    ],
    "an unknown session that is deleted": [
      -32_002,
      (world) =>
        lastLine(world, `{"jsonrpc":"2.0","id":"d","method":"session/delete","params":{"sessionId":"${unknown}"}}`)
    ],
    "an unknown session whose option is set": [
      -32_002,
      (world) =>
        code(world, world.ask("session/set_config_option", { sessionId: unknown, configId: "effort", value: "low" }))
    ],
    "a mode that does not exist": [
      -32_602,
      (world) => code(world, world.ask("session/set_mode", { sessionId: world.sessionId, modeId: "fast" }))
    ],
    "a model that does not exist": [
      -32_602,
      (world) =>
        code(
          world,
          world.ask("session/set_config_option", {
            sessionId: world.sessionId,
            configId: "model",
            value: "nobody/none"
          })
        )
    ],
    "an effort that does not exist": [
      -32_602,
      (world) =>
        code(
          world,
          world.ask("session/set_config_option", { sessionId: world.sessionId, configId: "effort", value: "heroic" })
        )
    ],
    "an option that does not exist": [
      -32_602,
      (world) =>
        code(
          world,
          world.ask("session/set_config_option", { sessionId: world.sessionId, configId: "colour", value: "red" })
        )
    ],
    "an option of another type": [
      -32_602,
      (world) =>
        code(
          world,
          world.ask("session/set_config_option", {
            sessionId: world.sessionId,
            configId: "effort",
            type: "boolean",
            value: true
          })
        )
    ],
    "a page that does not exist": [-32_602, (world) => code(world, world.ask("session/list", { cursor: "nobody" }))],
    "an image of an unknown type": [
      -32_602,
      (world) =>
        code(
          world,
          world.ask("session/prompt", {
            sessionId: world.sessionId,
            prompt: [{ type: "image", data: "AAAA", mimeType: "image/tiff" }]
          })
        )
    ],
    "an image that is no base64": [
      -32_602,
      (world) =>
        code(
          world,
          world.ask("session/prompt", {
            sessionId: world.sessionId,
            prompt: [{ type: "image", data: "!", mimeType: "image/png" }]
          })
        )
    ],
    "a slash command that fails": [
      -32_602,
      (world) => code(world, world.ask("session/prompt", { sessionId: world.sessionId, prompt: say("/broken") }))
    ],
    "a version that is no number": [
      -32_602,
      (world) => code(world, world.ask("initialize", JSON.parse(`{"protocolVersion":"two"}`)))
    ],
    "an unknown session that is cancelled": [
      undefined,
      async ({ connection }) => await connection.agent.notify("session/cancel", { sessionId: unknown })
    ],
    "a line that is no JSON": [-32_700, (world) => lastLine(world, "{ this is no JSON")],
    "a line that is no object": [-32_600, (world) => lastLine(world, "7")],
    "a batch": [-32_600, (world) => lastLine(world, "[]")],
    "an unknown method": [
      -32_601,
      (world) => lastLine(world, `{"jsonrpc":"2.0","id":"a","method":"session/dance","params":{}}`)
    ],
    "parameters of another type": [
      -32_602,
      (world) => lastLine(world, `{"jsonrpc":"2.0","id":"b","method":"session/prompt","params":{"sessionId":7}}`)
    ],
    "a login that does not exist": [
      -32_602,
      (world) => code(world, world.ask("authenticate", { methodId: "a wrong key" }))
    ],
    "a directory that is not absolute": [
      -32_602,
      (world) => code(world, world.ask("session/new", { cwd: "here", mcpServers: [] }))
    ],
    "an answer to a question that was never asked": [
      undefined,
      async ({ raw }) =>
        await raw(`{"jsonrpc":"2.0","id":"nobody","result":{"outcome":{"outcome":"selected","optionId":"always"}}}`)
    ],
    "a version from the future": [
      1,
      async ({ ask }) => (await ask("initialize", { protocolVersion: 99, clientCapabilities: {} })).protocolVersion
    ]
  }

  it.live("has the protocol's own error, and the session stays usable after each", () =>
    Effect.gen(function* () {
      const editor = yield* world({ ...asking, wait: [{ text: "I wait ", hangs: true }] })
      const { ask, connection, sessionId } = editor
      yield* Effect.promise(async () => {
        for (const [name, [expected, act]] of Object.entries(table)) {
          assert.strictEqual(await act(editor), expected, name)
          await usable(editor)
        }
        const first = ask("session/prompt", { sessionId, prompt: say("wait") })
        await until(() => editor.textOf(sessionId).includes("I wait"))
        assert.strictEqual(await code(editor, ask("session/prompt", { sessionId, prompt: say("hello") })), -32_600)
        await connection.agent.notify("session/cancel", { sessionId })
        assert.strictEqual((await first).stopReason, "cancelled")
        await usable(editor)
      })
    })
  )
})
