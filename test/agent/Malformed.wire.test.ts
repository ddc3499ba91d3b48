// Tool calls as models get them wrong, over HTTP in each protocol, streamed and in one piece: what runs, and what the
// model is told in the next request.
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import * as Tool from "effect/ai/Tool"
import * as Toolkit from "effect/ai/Toolkit"
import * as Agent from "../../src/agent/Agent.ts"
import type { AgentSettings } from "../../src/agent/RunInput.ts"
import * as History from "../../src/base/domain/History.ts"
import type { RunEvent } from "../../src/base/domain/RunEvent.ts"
import * as Runtime from "../../src/program/Runtime.ts"
import * as Delegate from "../../src/tools/builtin/Delegate.ts"
import * as LoopGuard from "../../src/tools/calls/LoopGuard.ts"
import * as Toolset from "../../src/tools/Toolset.ts"
import { protocols, serve, type WireTurn } from "../support/wireModel.ts"

const Echo = Tool.make("echo", {
  description: "Says it again",
  parameters: Schema.Struct({ text: Schema.String, times: Schema.optionalKey(Schema.Int) }),
  success: Schema.String
}).annotate(Tool.Readonly, true)
const Now = Tool.make("now", { description: "Tells the time", success: Schema.String })
const Fail = Tool.make("fail", {
  description: "Never works",
  parameters: Schema.Struct({ text: Schema.String }),
  success: Schema.String,
  failure: Schema.String
})
const toolkit = Toolkit.make(Echo, Now, Fail)

const echo = (args: string, id = "c1", name = "echo") => ({ id, name, args })
const done: WireTurn = { text: "done" }

for (const [mode, protocol] of Object.entries(protocols)) {
  for (const streaming of [true, false]) {
    /** Plays the turns, and gives what ran, how each call ended, and what was sent. */
    const play = Effect.fnUntraced(function* (
      turns: ReadonlyArray<WireTurn>,
      settings: Omit<AgentSettings, "tools"> = {}
    ) {
      const { provider, server } = yield* serve(protocol, streaming, turns)
      const ran: Array<unknown> = []
      const handlers = toolkit.toLayer({
        echo: (given) => Effect.sync(() => (ran.push(given), given.text.repeat(given.times ?? 1))),
        now: () => Effect.sync(() => (ran.push("now"), "noon")),
        fail: () => Effect.fail("it never works")
      })
      const ended: Array<Extract<RunEvent, { readonly _tag: "ToolFinished" }>> = []
      const result = yield* Agent.run({
        prompt: "go",
        streaming,
        onEvent: (events) =>
          Effect.sync(() => void ended.push(...events.filter((event) => event._tag === "ToolFinished")))
      }).pipe(
        Effect.provide(
          Runtime.layer({ provider, tools: [Toolset.make("test", toolkit, handlers), Delegate.toolset], ...settings })
        )
      )
      return {
        result,
        ran,
        ended: ended.map(({ name, status }) => [name, status]),
        outputs: ended.map(({ output }) => output),
        sent: server.requests.map(({ body }) => body)
      }
    })

    describe(`calls that a model gets wrong: ${mode}, ${streaming ? "streamed" : "in one piece"}`, () => {
      it.live("a name in another spelling is taken for the tool's", () =>
        Effect.gen(function* () {
          const { ended, outputs, ran, sent } = yield* play([
            { calls: [echo('{"text":"a"}', "c1", "Echo-Tool")] },
            done
          ])
          assert.deepStrictEqual([ran, ended], [[{ text: "a" }], [["echo", "ok"]]])
          const told = 'a\n\n[There is no tool "Echo-Tool": echo was called instead.]'
          assert.deepStrictEqual(outputs, [told])
          assert.strictEqual(
            sent[1]?.split("Echo-Tool").length,
            2,
            "the call itself has the tool's name, the result has the note"
          )
          assert.include(sent[1], JSON.stringify(told).slice(1, -1))
        })
      )

      it.live(
        "an unknown name is answered with the names that there are, and the valid call beside it is skipped",
        () =>
          Effect.gen(function* () {
            const { ended, ran, result, sent } = yield* play([
              { calls: [echo("{}", "c1", "zzz"), echo('{"text":"b"}', "c2")] },
              done
            ])
            assert.deepStrictEqual(ran, [])
            assert.sameDeepMembers(ended, [
              ["zzz", "error"],
              ["echo", "cancelled"]
            ])
            assert.include(sent[1], "Skipped: another tool call in this turn used an invalid name.")
            assert.include(sent[1], "Tool 'zzz' does not exist. Available tools: delegate_task, echo, fail, now")
            assert.strictEqual(result.exit, "text_response")
          })
      )

      it.live(
        "a name that there is not is counted also beside calls that are fine, and arguments that are none too",
        () =>
          Effect.gen(function* () {
            const fine = echo('{"text":"b"}', "c2")
            const mistakes = [
              { wrong: echo("{}", "c1", "zzz"), ran: 0 },
              { wrong: echo("{text: a}", "c1"), ran: 3 }
            ]
            for (const { ran, wrong } of mistakes) {
              for (const calls of [
                [wrong, fine],
                [fine, wrong]
              ]) {
                const stuck = yield* play([{ calls }])
                assert.deepStrictEqual(
                  [stuck.result.exit, stuck.sent.length, stuck.ran.length],
                  ["invalid_tool_calls", 3, ran]
                )
                const again = yield* play([{ calls }, { calls }, { calls: [fine] }, { calls }, { calls }, done])
                assert.deepStrictEqual(
                  [again.result.exit, again.sent.length],
                  ["text_response", 6],
                  "a step that is fine starts anew"
                )
              }
            }
          })
      )

      it.live(
        "arguments that are no JSON are sent back as an empty object, with a marker before the result that there is",
        () =>
          Effect.gen(function* () {
            const { outputs, sent } = yield* play([
              { calls: [echo("{text: a}"), echo('{"text":"b"}', "c2")] },
              { calls: [echo('{"text":"c"}', "c3")] },
              done
            ])
            const marked = `${History.corruptedArguments}\n${outputs.find((output) => output.includes("{text: a}"))}`
            for (const body of sent.slice(1)) {
              assert.include(body, JSON.stringify(marked).slice(1, -1))
              assert.strictEqual(body.split(History.corruptedArguments).length, 2)
            }
            assert.notInclude(sent[0], History.corruptedArguments)
          })
      )

      it.live("arguments that are no JSON are answered with what is wrong and how to do it", () =>
        Effect.gen(function* () {
          const { ended, outputs, ran, sent } = yield* play([{ calls: [echo("{text: a}")] }, done])
          assert.deepStrictEqual([ran, ended], [[], [["echo", "error"]]])
          assert.match(
            String(outputs[0]),
            /are not a JSON object \(.*JSON at position 1.*\): \{text: a\}\. Call it again with valid JSON/
          )
          assert.include(sent[1], "use {} for a tool without parameters")
        })
      )

      it.live("arguments that end early without being cut drop no other call of the answer", () =>
        Effect.gen(function* () {
          const fine = echo('{"text":"b"}', "c2")
          for (const calls of [
            // The model went on with another call: no limit cut the first one.
            [echo('{"text": "a'), fine],
            // No object begins like this, so that more room does not complete it.
            [echo("the text a"), fine],
            [fine, echo("the text a")]
          ]) {
            const { ended, outputs, ran, result } = yield* play([{ calls }, done])
            assert.deepStrictEqual([ran, result.exit], [[{ text: "b" }], "text_response"])
            assert.sameDeepMembers(ended, [
              ["echo", "error"],
              ["echo", "ok"]
            ])
            assert.match(outputs.join("\n"), /are not a JSON object \((it ends early|Unexpected token)/)
          }
        })
      )

      it.live("a cut last call is asked again, and nothing of its answer runs", () =>
        Effect.gen(function* () {
          const calls = [echo('{"text":"b"}', "c2"), echo('{"text": "a')]
          const { ended, ran, sent } = yield* play([{ calls }, done])
          assert.deepStrictEqual([ran, ended, sent.length], [[], [], 2])
        })
      )

      it.live("arguments with small mistakes are read", () =>
        Effect.gen(function* () {
          const { ran } = yield* play([
            { calls: [echo('{"text":"a",}'), echo('{"text":"b"}}', "c2"), echo('{"text":"two\nlines"}', "c3")] },
            done
          ])
          assert.sameDeepMembers(ran, [{ text: "a" }, { text: "b" }, { text: "two\nlines" }])
        })
      )

      it.live("empty arguments are those of a tool without parameters", () =>
        Effect.gen(function* () {
          assert.deepStrictEqual((yield* play([{ calls: [echo("", "c1", "now")] }, done])).ran, ["now"])
        })
      )

      it.live("arguments that were cut are never run: asked again, and given up after three", () =>
        Effect.gen(function* () {
          const cut = { calls: [echo('{"text": "a')] }
          const again = yield* play([cut, { calls: [echo('{"text": "all"}')] }, done])
          assert.deepStrictEqual([again.ran, again.result.exit], [[{ text: "all" }], "text_response"])
          const never = yield* play([{ ...cut, text: "Let me see." }])
          assert.deepStrictEqual([never.ran, never.ended, never.sent.length], [[], [], 3])
          assert.deepInclude(never.result, { exit: "output_truncated", text: "Let me see." })
        })
      )

      it.live("values of another type are turned into that of the schema, or answered with it", () =>
        Effect.gen(function* () {
          const { outputs, ran } = yield* play([
            { calls: [echo('{"text":"a","times":"2"}'), echo('{"text":7}', "c2"), echo('{"test":"c"}', "c3")] },
            done
          ])
          assert.deepStrictEqual(ran, [{ text: "a", times: 2 }])
          const refused = outputs.filter((output) => output.includes("do not fit"))
          assert.lengthOf(refused, 2)
          for (const output of refused) assert.include(output, "Parameters: text (string, required), times (integer)")
        })
      )

      it.live("a call that is made twice in a message runs once", () =>
        Effect.gen(function* () {
          const { ended, ran } = yield* play([{ calls: [echo('{"text":"a"}'), echo('{"text": "a"}', "c2")] }, done])
          assert.deepStrictEqual([ran, ended], [[{ text: "a" }], [["echo", "ok"]]])
        })
      )

      it.live("of many delegations in a message as many run as may", () =>
        Effect.gen(function* () {
          const calls = [1, 2, 3, 4].map((n) => echo(`{"goal":"${" ".repeat(n)}"}`, `c${n}`, "delegate_task"))
          const one = yield* play([{ calls: [...calls, echo('{"text":"a"}', "c9")] }, done])
          assert.sameDeepMembers(one.ended, [
            ["delegate_task", "error"],
            ["echo", "ok"]
          ])
          const two = yield* play([{ calls }, done], { delegation: { maxCallsPerStep: 2 } })
          assert.lengthOf(two.ended, 2)
        })
      )

      it.live("the same failing call is warned about, and ends the run where hard stops are on", () =>
        Effect.gen(function* () {
          let count = 0
          const turn = (): WireTurn => ({ calls: [echo('{"text":"a"}', `c${count++}`, "fail")] })
          const warned = yield* play([turn(), turn(), done])
          assert.notInclude(warned.sent[1], "has failed")
          assert.include(warned.sent[2], "This exact call of fail has failed 2 times. Do not repeat it")
          const stopped = yield* play([turn(), turn(), turn(), turn(), turn(), turn(), turn()], {
            loopGuard: { ...LoopGuard.defaults, hardStop: true }
          })
          assert.strictEqual(stopped.result.exit, "guardrail_halt")
          assert.deepStrictEqual(
            stopped.ended.map(([, status]) => status),
            ["error", "error", "error", "error", "error", "blocked"]
          )
        })
      )

      it.live("a model that only makes calls that can not be tried is given up after three", () =>
        Effect.gen(function* () {
          let count = 0
          const turns = Array.from({ length: 4 }, (): WireTurn => ({
            text: "Hm. ",
            calls: [echo("[1]", `c${count++}`)]
          }))
          const { result, sent } = yield* play(turns)
          assert.strictEqual(result.exit, "invalid_tool_calls")
          assert.lengthOf(sent, 3)
        })
      )
    })
  }
}
