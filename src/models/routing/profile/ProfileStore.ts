/**
 * Stores what was learnt about routes between runs: parameters that endpoints reject, other forms of requests, and the
 * longest answer. A fact is learnt from a refusal or an answer, or set by the user.
 *
 * **Details**
 *
 * The file is `cache/model_profiles.json` in the home directory. It may be lost without harm, because its facts are
 * discovered again. Learnt facts expire, since servers change; the user's facts do not. If two processes write at the
 * same time, at most one fact is lost.
 *
 * | fact | value |
 * | --- | --- |
 * | `output_maximum` | longest answer in tokens |
 * | `usage` | `none` if the endpoint does not report the size of prompts |
 * | `form.<change>` | `true` if calls are sent with this change, such as `form.with_short_call_ids` |
 * | `parameter.<name>` | other name of the parameter, or `omit` |
 *
 * Source: `hermes-llm.md` §15.5, §16.5.
 */
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import type * as FileSystem from "effect/FileSystem"
import type * as Path from "effect/Path"
import * as Schema from "effect/Schema"
import * as Semaphore from "effect/Semaphore"
import { redactStart } from "../../../base/domain/Redaction.ts"
import type { Route } from "../../../base/domain/Route.ts"
import * as HomeFile from "../HomeFile.ts"

/** Source of a fact. */
export const Source = Schema.Literals(["refusal", "answer", "user"])

/** One fact about a route. */
export const Fact = Schema.Struct({
  value: Schema.Union([Schema.String, Schema.Finite, Schema.Boolean]),
  source: Source,
  /** Time in milliseconds since 1970 at which the fact was learnt. */
  at: Schema.Finite,
  /** Message of the endpoint from which the fact was learnt, at most 200 characters, without secrets. */
  message: Schema.optionalKey(Schema.String)
})
/** One fact about a route. */
export type Fact = typeof Fact.Type

/** Facts about a route by their name. */
export const Facts = Schema.Record(Schema.String, Fact)
/** Facts about a route by their name. */
export type Facts = typeof Facts.Type

/** A fact before it is stored. */
export type NewFact = Omit<Fact, "at">

const Profiles = Schema.Struct({ version: Schema.Literal(1), routes: Schema.Record(Schema.String, Facts) })
type Profiles = typeof Profiles.Type

/** Stores the facts about routes. Routes are identified by the id of a managed route. */
export interface ProfileStore {
  /** Returns the facts about a route that have not expired. */
  readonly get: (route: string) => Effect.Effect<Facts>
  /** Adds facts, or replaces facts of the same name. */
  readonly add: (route: string, facts: Readonly<Record<string, NewFact>>) => Effect.Effect<void>
  /** Returns the facts about all routes that have not expired. */
  readonly list: Effect.Effect<Readonly<Record<string, Facts>>>
  /** Removes one fact, or all facts about a route. Returns the number of removed facts. */
  readonly forget: (route: string, name?: string) => Effect.Effect<number>
}

/** Returns the id under which the facts about a route are stored. It does not depend on the key. */
export const formatRouteId = ({
  apiMode,
  baseUrl,
  model,
  provider,
  region
}: Pick<Route, "apiMode" | "baseUrl" | "model" | "provider" | "region">): string =>
  `${provider}|${model}|${apiMode}|${baseUrl ?? region ?? ""}`

/** Name of the file in the home directory. */
export const fileName = "cache/model_profiles.json"

const maxMessage = 200
const day = 24 * 3_600_000

/** Returns the number of milliseconds after which a learnt fact is discovered again. */
const findAge = (name: string): number =>
  name === "form.without_stream" || name === "form.without_images" || name === "usage" ? day : 7 * day

const isCurrent = (name: string, { at, source }: Fact, now: number): boolean =>
  source === "user" || (at <= now && now - at < findAge(name))

const selectCurrent = (facts: Facts, now: number): Facts =>
  Object.fromEntries(Object.entries(facts).filter(([name, fact]) => isCurrent(name, fact, now)))

const nothing: Profiles = { version: 1, routes: {} }

const findFacts = ({ routes }: Profiles, route: string): Facts =>
  Object.hasOwn(routes, route) ? (routes[route] ?? {}) : {}

const makeOverFile = ({ load, save }: HomeFile.Memory<Profiles>): Effect.Effect<ProfileStore> =>
  Effect.gen(function* () {
    const writing = yield* Semaphore.make(1)

    /** Changes the facts of a route in the newest file, which other processes may have written. */
    const changeFacts = <A>(route: string, change: (facts: Facts, now: number) => readonly [A, Facts]) =>
      writing.withPermit(
        Effect.gen(function* () {
          const now = yield* Clock.currentTimeMillis
          const stored = yield* load
          const [result, facts] = change(selectCurrent(findFacts(stored, route), now), now)
          const { [route]: _, ...others } = stored.routes
          const routes = Object.keys(facts).length === 0 ? others : { ...others, [route]: facts }
          yield* save({ version: 1, routes })
          return result
        })
      )

    return {
      get: (route) =>
        Effect.flatMap(Clock.currentTimeMillis, (now) =>
          Effect.map(load, (stored) => selectCurrent(findFacts(stored, route), now))
        ),
      add: (route, facts) =>
        changeFacts(route, (known, now) => {
          const added = Object.entries(facts).map(([name, { message, source, value }]): [string, Fact] => [
            name,
            { value, source, at: now, ...(message === undefined ? {} : { message: redactStart(message, maxMessage) }) }
          ])
          return [undefined, { ...known, ...Object.fromEntries(added) }]
        }),
      list: Effect.flatMap(Clock.currentTimeMillis, (now) =>
        Effect.map(load, ({ routes }) =>
          Object.fromEntries(
            Object.entries(routes)
              .map(([route, facts]) => [route, selectCurrent(facts, now)] as const)
              .filter(([, facts]) => Object.keys(facts).length > 0)
          )
        )
      ),
      forget: (route, name) =>
        changeFacts(route, (known) => {
          const left = Object.fromEntries(
            Object.entries(known).filter(([other]) => name !== undefined && other !== name)
          )
          return [Object.keys(known).length - Object.keys(left).length, left]
        })
    }
  })

/** Opens the store in a home directory, which need not exist yet. The file is read on each use. */
export const openFile = (home: string): Effect.Effect<ProfileStore, never, FileSystem.FileSystem | Path.Path> =>
  Effect.flatMap(HomeFile.makeMemory(home, fileName, Schema.fromJsonString(Profiles), nothing), makeOverFile)
