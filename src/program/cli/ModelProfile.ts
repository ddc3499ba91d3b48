/**
 * `hermes model profile`: shows what is known about the requests and answers of a route, and changes or forgets it.
 *
 * **Details**
 *
 * A profile contains facts from a table of endpoints, from refusals and answers, and from the user. Learnt facts expire
 * after some days; the user's facts do not. `set` replaces a fact, `forget` removes it: it is then learnt again.
 *
 * Source: `hermes-llm.md` §10.1, §15.5.
 */
import * as DateTime from "effect/DateTime"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Argument from "effect/cli/Argument"
import * as Command from "effect/cli/Command"
import * as Config from "../../base/config/Config.ts"
import { Home } from "../../base/config/Environment.ts"
import * as Route from "../../base/domain/Route.ts"
import { Catalogue, layerHome } from "../../models/routing/Catalogue.ts"
import * as ContextWindow from "../../models/routing/ContextWindow.ts"
import * as ProfileStore from "../../models/routing/profile/ProfileStore.ts"
import * as RouteProfile from "../../models/routing/RouteProfile.ts"
import * as ConfiguredModels from "./ConfiguredModels.ts"
import { makeUsageFailure } from "./Failure.ts"
import * as Flags from "./Flags.ts"
import { hermes } from "./Hermes.ts"
import { printLine } from "./ProgramOutput.ts"
import * as SafeText from "./render/SafeText.ts"
import * as Layer from "effect/Layer"

const json = Flags.makeSwitch("json", "Print JSON")
const all = Flags.makeSwitch("all", "Show every route about which something was learnt")

/** One line of a profile. */
interface Row {
  readonly fact: string
  readonly value: string | number | boolean
  /** Source of the fact: `table`, `refusal`, `answer`, `user`, or the source of the window. */
  readonly source: string
  /** Day on which the fact was learnt. */
  readonly since?: string
  readonly message?: string
}

const formatDay = (millis: number): string => DateTime.formatIsoDateUtc(DateTime.makeUnsafe(millis))

const toRows = (facts: ProfileStore.Facts): ReadonlyArray<Row> =>
  Object.entries(facts)
    .toSorted(([a], [b]) => a.localeCompare(b))
    .map(([fact, { at, message, source, value }]) => ({
      fact,
      value,
      source,
      since: formatDay(at),
      ...(message === undefined ? {} : { message })
    }))

/** Returns what the tables of this package contain about a route. */
const listTabled = (route: Route.Route, facts: ProfileStore.Facts): ReadonlyArray<Row> => [
  { fact: "cache_marks", value: Route.abilities(route).cacheMarks, source: "table" },
  ...Array.from(RouteProfile.makeProfile(route).changes, (change): Row => ({
    fact: `${RouteProfile.formPrefix}${change}`,
    value: true,
    source: "table"
  })).filter(({ fact }) => !Object.hasOwn(facts, fact))
]

const formatRow = (widths: readonly [number, number], { fact, message, since, source, value }: Row): string => {
  const from = since === undefined ? source : `${source}, ${since}`
  const said = message === undefined ? "" : `: ${SafeText.toLine(message)}`
  return `${fact.padEnd(widths[0])}  ${String(value).padEnd(widths[1])}  ${from}${said}`
}

const formatRows = (rows: ReadonlyArray<Row>): string => {
  const widths = [
    Math.max(...rows.map(({ fact }) => fact.length)),
    Math.max(...rows.map(({ value }) => String(value).length))
  ] as const
  return rows.map((row) => formatRow(widths, row)).join("\n")
}

/** Runs an effect with the configured route, and the stores of its profile and its window. */
const withProfile = <A, E, R>(
  work: (
    route: Route.Route,
    stores: { readonly profiles: ProfileStore.ProfileStore; readonly windows: ContextWindow.ContextWindows }
  ) => Effect.Effect<A, E, R>
) =>
  Effect.flatMap(hermes, (flags) =>
    ConfiguredModels.withRoute(
      "look",
      Effect.fnUntraced(function* (route) {
        const { root } = yield* Home
        const profiles = yield* ProfileStore.openFile(root)
        return yield* work(route, { profiles, windows: yield* ContextWindow.openFile(root) })
      })
    ).pipe(Effect.provide(layerHome.pipe(Layer.provideMerge(Config.layerAll(Flags.toConfigOptions(flags))))))
  )

const showAll = Effect.fnUntraced(function* (asJson: boolean, profiles: ProfileStore.ProfileStore) {
  const routes = yield* profiles.list
  if (asJson) return yield* printLine(SafeText.toJson(routes, 2))
  const blocks = Object.entries(routes).map(([id, facts]) => `${SafeText.toLine(id)}\n${formatRows(toRows(facts))}`)
  yield* printLine(blocks.length === 0 ? "Nothing was learnt about any route" : blocks.join("\n\n"))
})

/** Shows the profile of the configured route, or of all routes. */
const showProfile = ({ all, json }: { readonly all: boolean; readonly json: boolean }) =>
  withProfile(
    Effect.fnUntraced(function* (route, { profiles }) {
      if (all) return yield* showAll(json, profiles)
      const { source, tokens } = yield* Catalogue.use((catalogue) => catalogue.window(route))
      const facts = yield* profiles.get(ProfileStore.formatRouteId(route))
      const rows: ReadonlyArray<Row> = [
        { fact: "window", value: tokens, source },
        ...listTabled(route, facts),
        ...toRows(facts)
      ]
      yield* printLine(
        json
          ? SafeText.toJson({ route: ProfileStore.formatRouteId(route), facts: rows }, 2)
          : `${route.model} of ${route.provider}\n${formatRows(rows)}`
      )
    })
  )

const factName = Argument.String("fact").pipe(
  Argument.withDescription("Fact, such as output_maximum, window, form.with_short_call_ids or parameter.temperature")
)

const readValue = (text: string): string | number | boolean =>
  text === "true" ? true : /^\d+$/.test(text) ? Number(text) : text

const set = Command.make(
  "set",
  {
    fact: factName,
    value: Argument.String("value").pipe(
      Argument.withDescription("Value: a number of tokens, true, another name of the parameter, or omit")
    )
  },
  ({ fact, value: text }) =>
    withProfile(
      Effect.fnUntraced(function* (route, { profiles, windows }) {
        const value = readValue(text)
        if (fact === "window" && typeof value === "number") yield* windows.confirm(route, value)
        else if (RouteProfile.isValidFact(fact, { value }))
          yield* profiles.add(ProfileStore.formatRouteId(route), { [fact]: { value, source: "user" } })
        else {
          return yield* makeUsageFailure(
            `${fact} cannot be ${text}: set window or output_maximum to a number, usage to none, a form such as ` +
              "form.without_images to true, or parameter.NAME to omit or to another name"
          )
        }
        yield* printLine(`${fact} of ${route.model} of ${route.provider} is ${value}`)
      })
    )
).pipe(Command.withDescription("Set a fact about the model; it does not expire"))

const forget = Command.make("forget", { fact: Argument.optional(factName) }, ({ fact }) =>
  withProfile(
    Effect.fnUntraced(function* (route, { profiles, windows }) {
      const name = Option.getOrUndefined(fact)
      const hadWindow = (name === undefined || name === "window") && (yield* windows.get(route)) !== undefined
      if (hadWindow) yield* windows.forget(route)
      const count = yield* profiles.forget(ProfileStore.formatRouteId(route), name)
      const forgotten = count + (hadWindow ? 1 : 0)
      if (forgotten === 0 && name !== undefined)
        return yield* makeUsageFailure(`nothing named ${name} was learnt about ${route.model} of ${route.provider}`)
      yield* printLine(
        `Forgot ${forgotten === 1 ? "1 fact" : `${forgotten} facts`} about ${route.model} of ${route.provider}`
      )
    })
  )
).pipe(Command.withDescription("Forget a fact about the model, or all of them; they are learnt again"))

/** The command `hermes model profile`. */
export const command = Command.make("profile", { all, json }, showProfile).pipe(
  Command.withDescription("Show what was learnt about the requests that the model's endpoint accepts"),
  Command.withSubcommands([set, forget])
)
