// What is known about a route: from the table, from refusals, and from earlier programs.
import * as NodeServices from "@effect/platform-node/NodeServices"
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Prompt from "effect/ai/Prompt"
import * as TestClock from "effect/testing/TestClock"
import { readFileSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import type { ModelCall } from "../../../src/base/domain/ModelCall.ts"
import * as Adaptation from "../../../src/models/routing/Adaptation.ts"
import * as ProfileStore from "../../../src/models/routing/profile/ProfileStore.ts"
import * as RouteProfile from "../../../src/models/routing/RouteProfile.ts"
import * as Usage from "../../../src/base/domain/Usage.ts"
import * as Fake from "../../support/fakeModel.ts"
import { temporaryDirectory } from "../../support/temporaryDirectory.ts"
import * as S from "./support.ts"

const at = (baseUrl: string, model = "m") => ({ ...S.route("custom"), baseUrl, model })

const history = (...ids: ReadonlyArray<string>): ModelCall => ({
  ...S.question,
  messages: ids.flatMap((id) => [
    Prompt.assistantMessage({ content: [Prompt.toolCallPart({ id, name: "t", params: {}, providerExecuted: false })] }),
    Prompt.toolMessage({
      content: [Prompt.toolResultPart({ id, name: "t", isFailure: false, result: "r", providerExecuted: false })]
    })
  ])
})

const listIds = ({ messages }: ModelCall) =>
  messages.flatMap(({ content }) =>
    typeof content === "string" ? [] : content.flatMap((part) => ("id" in part ? [part.id] : []))
  )

describe("the table", () => {
  it("knows that Mistral wants short ids, and nothing about endpoints that it does not list", () => {
    assert.deepStrictEqual(
      [...RouteProfile.makeProfile(at("https://api.mistral.ai/v1")).changes],
      ["with_short_call_ids"]
    )
    assert.deepStrictEqual([...RouteProfile.makeProfile(at("https://gateway.example/v1")).changes], [])
  })
})

describe("forms of a call", () => {
  it("short ids are the same for a call and its result, and messages are changed once", () => {
    const call = history("call_1", "toolu_01ABC", "abcDEF123")
    const short = Adaptation.applyChanges(call, new Set(["with_short_call_ids"]))
    const ids = listIds(short)
    assert.isTrue(ids.every((id) => /^[A-Za-z0-9]{9}$/.test(id)))
    assert.deepStrictEqual([ids[0], ids[2], ids[4]], [ids[1], ids[3], ids[5]])
    assert.strictEqual(new Set(ids).size, 3)
    assert.strictEqual(ids[4], "abcDEF123")
    const again = Adaptation.applyChanges(call, new Set(["with_short_call_ids"]))
    assert.isTrue(again.messages.every((message, index) => message === short.messages[index]))
  })

  it("calls of other models get the value that stands for a signature, signed ones keep theirs", () => {
    const call = history("c1")
    const [first] = Adaptation.applyChanges(call, new Set(["with_signatures"])).messages
    assert(first?.role === "assistant" && first.content[0]?.type === "tool-call")
    assert.deepInclude(first.content[0].options["chat_completions"], {
      extra_content: { google: { thought_signature: "skip_thought_signature_validator" } }
    })
  })
})

describe("facts", () => {
  const refusal = (value: number) =>
    ({ output_maximum: { value, source: "refusal", message: "m".repeat(900) } }) as const

  it.effect("are there in the next program, expire, and those of the user do not", () =>
    Effect.gen(function* () {
      const home = yield* temporaryDirectory
      const first = yield* ProfileStore.openFile(home)
      yield* first.add("a", refusal(8_192))
      const key = `sk-${"a1B2".repeat(12)}`
      yield* first.add("a", { "form.without_images": { value: true, source: "refusal", message: `key ${key}: no` } })
      assert.notInclude(readFileSync(join(home, ProfileStore.fileName), "utf8"), key)
      yield* first.add("a", { "parameter.seed": { value: "omit", source: "user" } })
      const next = yield* ProfileStore.openFile(home)
      const known = yield* next.get("a")
      assert.deepStrictEqual(Object.keys(known).toSorted(), ["form.without_images", "output_maximum", "parameter.seed"])
      assert.strictEqual(known["output_maximum"]?.message?.length, 200)
      yield* TestClock.adjust("2 days")
      assert.deepStrictEqual(Object.keys(yield* next.get("a")).toSorted(), ["output_maximum", "parameter.seed"])
      yield* TestClock.adjust("6 days")
      assert.deepStrictEqual(Object.keys(yield* next.get("a")), ["parameter.seed"])
      assert.deepStrictEqual(yield* next.get("b"), {})
    }).pipe(Effect.scoped, Effect.provide(NodeServices.layer))
  )

  it.effect("of two programs are both kept, and a file that cannot be read is nothing", () =>
    Effect.gen(function* () {
      const home = yield* temporaryDirectory
      const [one, two] = [yield* ProfileStore.openFile(home), yield* ProfileStore.openFile(home)]
      yield* one.add("a", refusal(1))
      yield* two.add("a", { usage: { value: "none", source: "answer" } })
      yield* one.add("b", refusal(2))
      assert.deepStrictEqual(Object.keys(yield* two.list), ["a", "b"])
      assert.deepStrictEqual(Object.keys(yield* one.get("a")).toSorted(), ["output_maximum", "usage"])
      assert.strictEqual(yield* one.forget("a", "usage"), 1)
      assert.strictEqual(yield* one.forget("a"), 1)
      assert.deepStrictEqual(Object.keys(JSON.parse(readFileSync(join(home, ProfileStore.fileName), "utf8")).routes), [
        "b"
      ])
      writeFileSync(join(home, ProfileStore.fileName), "{")
      assert.deepStrictEqual(yield* two.list, {})
    }).pipe(Effect.scoped, Effect.provide(NodeServices.layer))
  )

  it.effect("are recalled once, and unknown ones are ignored", () =>
    Effect.gen(function* () {
      const route = { id: "r", profile: RouteProfile.makeProfile(at("https://gateway.example/v1")) }
      let asked = 0
      const store = {
        get: () =>
          Effect.sync(() => {
            asked++
            const fact = (value: string | number | boolean) => ({ value, source: "refusal" as const, at: 0 })
            return {
              output_maximum: fact(8_192),
              "parameter.temperature": fact("omit"),
              "parameter.max_tokens": fact("max_completion_tokens"),
              "form.without_patterns": fact(true),
              "form.with_wings": fact(true),
              colour: fact("red")
            }
          })
      }
      const recalled = RouteProfile.recallFacts(store, route)
      assert(recalled !== undefined)
      yield* recalled
      assert.isUndefined(RouteProfile.recallFacts(store, route))
      assert.strictEqual(asked, 1)
      const { changes, outputMaximum, parameters } = route.profile
      assert.deepStrictEqual([outputMaximum, [...changes]], [8_192, ["without_patterns"]])
      assert.deepStrictEqual(
        [...parameters],
        [
          ["temperature", undefined],
          ["max_tokens", "max_completion_tokens"]
        ]
      )
    })
  )

  it("a prompt that was cut is reported once, and does not calibrate the estimate", () => {
    const route = { id: "r", profile: RouteProfile.makeProfile(at("http://127.0.0.1:11434/v1")) }
    const note = (counted: number, estimated: number) => RouteProfile.notePromptSize(route, counted, () => estimated)
    assert.isUndefined(note(12_000, 10_000))
    assert.strictEqual(route.profile.ratio, 1.2)
    assert.strictEqual(note(4_096, 81_000), 81_000)
    assert.isUndefined(note(4_096, 82_000))
    assert.isUndefined(note(1, 50_000), "a count that is none")
    assert.strictEqual(route.profile.ratio, 1.2)
    assert.isUndefined(RouteProfile.notePromptSize(route, 40_000, () => 4_000, 20))
    assert.strictEqual(route.profile.ratio, 1.2, "files are not estimated")
  })

  for (const [refusal, stored] of [
    ["Unsupported parameter: 'max_tokens' is not supported with this model.", ["parameter.max_tokens"]],
    ["Please reduce the length of the messages or completion.", []]
  ] as const) {
    it.effect(`a limit that is omitted is stored for other programs if the refusal names it: ${refusal}`, () =>
      Effect.gen(function* () {
        const { open } = S.world({ a: [S.fails(S.http(400, refusal)), Fake.text("ok")] })
        const added: Array<string> = []
        const router = yield* S.router({
          chain: [{ route: S.route("a") }],
          profiles: {
            get: () => Effect.succeed({}),
            add: (_, facts) =>
              Effect.sync(() => void added.push(...Object.keys(facts).filter((one) => one !== "usage")))
          },
          open: (one) =>
            Effect.map(open(one), (provider) => ({
              ...provider,
              prepare: (call: ModelCall) =>
                Effect.map(provider.prepare(call), (request) => ({ ...request, max_tokens: 5 }))
            }))
        })
        yield* S.asking(router).answer
        assert.deepStrictEqual(added, [...stored])
      })
    )
  }

  it.effect("results that the provider may leave out are no reason for a shorter answer, or for a warning", () =>
    Effect.gen(function* () {
      const usage = Usage.toResponse({ input: 30_000, output: 5 })
      const { open, prepared } = S.world({ anthropic: [() => Effect.succeed({ ...Fake.textAnswer("ok"), usage })] })
      const router = yield* S.router({
        chain: [{ route: { ...S.route("anthropic", "claude-sonnet-4-5"), apiMode: "anthropic_messages" } }],
        open
      })
      const messages = [Prompt.userMessage({ content: [Prompt.textPart({ text: "x".repeat(740_000) })] })]
      const edited = { keepResults: 3, threshold: 0.5 }
      const calls = [undefined, edited].map((contextEdits): ModelCall => ({
        ...S.question,
        messages,
        maxOutputTokens: 60_000,
        contextEdits
      }))
      const told = yield* Effect.forEach(calls.toReversed(), (call) => {
        const { answer, events } = S.asking(router, { call })
        return Effect.map(answer, () => S.notices(events).filter((text) => text.includes("left out the rest")).length)
      })
      assert.deepStrictEqual(told, [0, 1])
      assert.deepStrictEqual(
        prepared.map(({ maxOutputTokens }) => maxOutputTokens),
        [60_000, 15_000]
      )
    })
  )
})
