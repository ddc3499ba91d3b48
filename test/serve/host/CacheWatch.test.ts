// What the next message of a live session will pay for again: predicted from the record, the route and the tools.
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Schema from "effect/Schema"
import * as Tool from "effect/ai/Tool"
import * as Toolkit from "effect/ai/Toolkit"
import * as Cost from "../../../src/base/domain/Cost.ts"
import { SessionId, TurnId } from "../../../src/base/domain/Ids.ts"
import type { AttemptStarted, Entry, RecordEvent } from "../../../src/base/domain/RecordEvent.ts"
import { type Route, toInfo } from "../../../src/base/domain/Route.ts"
import * as Usage from "../../../src/base/domain/Usage.ts"
import { ModelRouter } from "../../../src/models/routing/ModelRouter.ts"
import * as CacheWatch from "../../../src/serve/host/CacheWatch.ts"
import type { State } from "../../../src/serve/host/HostEvent.ts"
import * as RunRecord from "../../../src/store/RunRecord.ts"
import * as ToolRegistry from "../../../src/tools/ToolRegistry.ts"
import * as Toolset from "../../../src/tools/Toolset.ts"
import * as Fake from "../../support/fakeModel.ts"

const minute = 60_000
const hour = 60 * minute
const session = SessionId.make("20260101_000000_aaaaaa")
const turn = TurnId.make("turn-1")

const opus: Route = {
  provider: "anthropic",
  model: "claude-opus-4-6",
  apiMode: "anthropic_messages",
  baseUrl: undefined,
  apiKey: undefined
}
const sonnet: Route = { ...opus, model: "claude-sonnet-4-6" }

interface Sent extends Partial<Usage.Usage> {
  readonly cacheTtl?: (typeof AttemptStarted.Type)["cacheTtl"]
  /** The route that was called, if it is another than the chosen one. */
  readonly called?: Route
}

/** The record of a turn that chose Opus and sent one request at the time 0. */
const turnEntries = ({ cacheTtl, called = opus, ...usage }: Sent): ReadonlyArray<Entry> => {
  const { apiMode, model, provider } = called
  const events: ReadonlyArray<RecordEvent> = [
    {
      _tag: "RunStarted",
      version: 1,
      source: "cli",
      platform: "cli",
      provider: opus.provider,
      model: opus.model,
      cwd: "/",
      resumed: false
    },
    {
      _tag: "AttemptStarted",
      apiRequestId: "1",
      step: 1,
      attempt: 0,
      route: { provider, model, apiMode },
      messages: [],
      parameters: {},
      ...(cacheTtl === undefined ? {} : { cacheTtl })
    },
    { _tag: "AttemptEnded", apiRequestId: "1", status: "answered", answer: [], usage: { ...Usage.zero, ...usage } }
  ]
  return events.map((event) => ({ sessionId: session, turnId: turn, at: 0, event }))
}

const marked: Sent = { inputTokens: 10, cacheWriteTokens: 99_990, cacheTtl: "5m" }

const Note = Tool.make("note", { description: "Notes", success: Schema.String })
const toolkit = Toolkit.make(Note)
const notes = Toolset.make("notes", toolkit, toolkit.toLayer({ note: () => Effect.succeed("ok") }))

/** Prices per million tokens: Opus 5 (cached 0.5, written 6.25), other models unknown. */
const router = Layer.effect(
  ModelRouter,
  Effect.map(ModelRouter, (fake) => ({
    ...fake,
    primary: Effect.succeed(toInfo(opus)),
    primaryRoute: Effect.succeed(opus),
    catalogue: {
      ...fake.catalogue,
      known: ({ model }: Pick<Route, "model">) =>
        Effect.succeed({
          window: { tokens: 200_000, source: "table" },
          cost: ({ cacheReadTokens, cacheWriteTokens, inputTokens }: Usage.Usage) =>
            model === opus.model
              ? Cost.fromReportedUsd((inputTokens * 5 + cacheReadTokens * 0.5 + cacheWriteTokens * 6.25) / 1_000_000)
              : Cost.makeUnknown("no price")
        })
      // The watch asks a catalogue for nothing else.
    } as unknown as NonNullable<ModelRouter["Service"]["catalogue"]>
  }))
).pipe(Layer.provide(Fake.make(Fake.text("ok")).router))

/** The parts of the state that a watch reads. */
const makeLive = () => {
  const state: { route: Route | undefined; turn: State["turn"] } = { route: undefined, turn: undefined }
  return {
    state,
    // The rest of a live session is not read.
    live: { state: Effect.sync(() => ({ ...state, session: { id: session } }) as unknown as State) }
  }
}

const watched = (sent: Sent) =>
  Effect.gen(function* () {
    yield* RunRecord.RunRecord.use(({ append }) => append(turnEntries(sent)))
    const { live, state } = makeLive()
    const watch = yield* CacheWatch.watchPrefix(live, undefined)
    yield* watch.refresh(turn)
    return { state, watch }
  })

const services = Layer.mergeAll(RunRecord.layerMemory(), ToolRegistry.layerNone, router)

describe("the next message of a session", () => {
  it.effect("pays for the prefix again after the lifetime that the last request asked for", () =>
    Effect.gen(function* () {
      const { watch } = yield* watched(marked)
      assert.isUndefined(watch.predict(5 * minute))
      const loss = watch.predict(5 * minute + 1)
      assert.deepInclude(loss, { reason: "cache expired", tokens: 100_000 })
      assert.closeTo(loss?.price ?? 0, 0.575, 1e-9)
    }).pipe(Effect.provide(services))
  )

  it.effect("is warm for an hour if the last request asked for an hour", () =>
    Effect.gen(function* () {
      const { watch } = yield* watched({ ...marked, cacheTtl: "1h" })
      assert.isUndefined(watch.predict(hour))
      assert.strictEqual(watch.predict(hour + 1)?.reason, "cache expired")
    }).pipe(Effect.provide(services))
  )

  it.effect("pays again for another model, at the price of that model where it is known", () =>
    Effect.gen(function* () {
      const { state, watch } = yield* watched(marked)
      state.route = sonnet
      yield* watch.refresh(turn)
      assert.deepStrictEqual(watch.predict(minute), { reason: "another model", tokens: 100_000, price: undefined })
      state.route = undefined
      yield* watch.refresh(turn)
      assert.isUndefined(watch.predict(minute))
    }).pipe(Effect.provide(services))
  )

  it.effect("pays again after a change of the tools, and not if they are the same again", () =>
    Effect.gen(function* () {
      const { watch } = yield* watched(marked)
      yield* Effect.scoped(
        Effect.gen(function* () {
          yield* ToolRegistry.ToolRegistry.use(({ register }) => register(notes))
          yield* watch.refresh(turn)
          assert.strictEqual(watch.predict(minute)?.reason, "other tools")
        })
      )
      yield* watch.refresh(turn)
      assert.isUndefined(watch.predict(minute))
    }).pipe(Effect.provide(services))
  )

  it.effect("is not judged by a fallback, a small prefix, or a route that reports no cache", () =>
    Effect.gen(function* () {
      const fallback = yield* watched({ ...marked, called: sonnet })
      assert.isUndefined(fallback.watch.predict(minute))
      for (const sent of [{ inputTokens: 100_000 }, { inputTokens: 10, cacheReadTokens: 19_000 }] as const) {
        const { watch } = yield* Effect.provide(watched(sent), RunRecord.layerMemory())
        assert.isUndefined(watch.predict(hour))
      }
    }).pipe(Effect.provide(services))
  )
})
