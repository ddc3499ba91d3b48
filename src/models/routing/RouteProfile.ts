/**
 * Holds the facts about a route: the requests that it accepts, and its answers. Only this module changes them.
 *
 * **Details**
 *
 * A profile begins with a table of endpoints. It grows by refusals and answers, and by the facts of earlier runs
 * (`ProfileStore`). All sessions of a process share the profile of a route.
 *
 * Source: `hermes-llm.md` §4.1, §15.5, §16.5.
 */
import * as Effect from "effect/Effect"
import type * as Route from "../../base/domain/Route.ts"
import * as Endpoint from "../provider/chat/Endpoint.ts"
import * as Adaptation from "./Adaptation.ts"
import * as CallTokens from "./CallTokens.ts"
import type { Facts, NewFact, ProfileStore } from "./profile/ProfileStore.ts"

/** Facts about a route. */
export interface RouteProfile {
  /** Changes to calls that the endpoint requires. */
  readonly changes: ReadonlySet<Adaptation.Change>
  /** Parameters that the endpoint rejects, with their other names, or `undefined` if they are omitted. */
  readonly parameters: Adaptation.ParameterChanges
  /** Longest answer that the endpoint allows, in tokens, if it stated one. */
  readonly outputMaximum: number | undefined
  /** Tokens in the newest counted prompt per estimated token; 1 before the first one. */
  readonly ratio: number
  /** `none` if the endpoint does not report the size of prompts; `undefined` before the first answer. */
  readonly usage: "none" | "reported" | undefined
  /** Output limit that requests have if the caller does not choose one, as far as known. */
  readonly defaultLimit: number | undefined
}

interface MutableProfile extends RouteProfile {
  readonly changes: Set<Adaptation.Change>
  readonly parameters: Map<string, string | undefined>
  outputMaximum: number | undefined
  ratio: number
  usage: "none" | "reported" | undefined
  defaultLimit: number | undefined
  /** True if the user was told that the endpoint shortens prompts. */
  isCutReported: boolean
  /** True after the facts that earlier runs have stored were added. */
  isRecalled: boolean
}

/** Facts that every request of an endpoint needs, known without a refusal. */
const readTable = (route: Route.Route): ReadonlyArray<Adaptation.Change> =>
  route.apiMode === "chat_completions" && Endpoint.of(route).family === "mistral" ? ["with_short_call_ids"] : []

const makeMutable = (changes: ReadonlyArray<Adaptation.Change>): MutableProfile => ({
  changes: new Set(changes),
  parameters: new Map(),
  outputMaximum: undefined,
  ratio: 1,
  usage: undefined,
  defaultLimit: undefined,
  isCutReported: false,
  isRecalled: false
})

/** Creates the profile of a route from the table. */
export const makeProfile = (route: Route.Route): RouteProfile => makeMutable(readTable(route))

/** Names of the facts; see `ProfileStore`. */
export const formPrefix = "form."
/** Prefix of the names of facts about parameters. */
export const parameterPrefix = "parameter."
/** Value of a parameter that is omitted. */
export const omitted = "omit"

/** Adds a fact to a profile. Returns false if its name or value is unknown. */
const addFact = (profile: MutableProfile, name: string, { value }: Pick<NewFact, "value">): boolean => {
  if (name.startsWith(parameterPrefix) && typeof value === "string") {
    profile.parameters.set(name.slice(parameterPrefix.length), value === omitted ? undefined : value)
    return true
  }
  const change = Adaptation.findChange(name.startsWith(formPrefix) ? name.slice(formPrefix.length) : "")
  if (change !== undefined && value === true) {
    profile.changes.add(change)
    return true
  }
  if (name === "usage" && value === "none") {
    profile.usage = value
    return true
  }
  if (name !== "output_maximum" || typeof value !== "number" || value <= 0) return false
  profile.outputMaximum = value
  return true
}

/** Tests whether a fact has a known name and a valid value. */
export const isValidFact = (name: string, fact: Pick<NewFact, "value">): boolean => addFact(makeMutable([]), name, fact)

const addFacts = (profile: MutableProfile, facts: Readonly<Record<string, Pick<NewFact, "value">>>): void => {
  for (const [name, fact] of Object.entries(facts)) addFact(profile, name, fact)
}

/** A route with its profile. */
interface ProfiledRoute {
  readonly id: string
  readonly profile: RouteProfile
}

// Profiles are created by `makeProfile` only.
const toMutable = ({ profile }: ProfiledRoute) => profile as MutableProfile

/** Adds the facts that earlier runs have stored, once per route. Returns `undefined` if that is already done. */
export const recallFacts = (
  store: Pick<ProfileStore, "get"> | undefined,
  route: ProfiledRoute
): Effect.Effect<void> | undefined => {
  const profile = toMutable(route)
  if (profile.isRecalled || store === undefined) return undefined
  profile.isRecalled = true
  return Effect.map(store.get(route.id), (facts: Facts) => addFacts(profile, facts))
}

/** Adds facts that a refusal taught, for this process and the next ones. */
export const learnFacts = (
  store: Pick<ProfileStore, "add"> | undefined,
  route: ProfiledRoute,
  facts: Readonly<Record<string, NewFact>>
): Effect.Effect<void> => {
  addFacts(toMutable(route), facts)
  return store?.add(route.id, facts) ?? Effect.void
}

/** Adds a change to the profile for this process only. */
export const noteChange = (route: ProfiledRoute, change: Adaptation.Change): void => {
  toMutable(route).changes.add(change)
}

/**
 * Records whether the endpoint reports the size of prompts. Returns an effect that stores the first answer without it;
 * otherwise `undefined`.
 */
export const noteUsage = (
  store: Pick<ProfileStore, "add"> | undefined,
  route: ProfiledRoute,
  counted: number
): Effect.Effect<void> | undefined => {
  const profile = toMutable(route)
  if (counted > 0) {
    profile.usage = "reported"
    return undefined
  }
  if (profile.usage !== undefined) return undefined
  profile.usage = "none"
  return store?.add(route.id, { usage: { value: "none", source: "answer" } })
}

/** Smallest count that can be a window, so that less is a wrong count and not a shortened prompt. */
const leastWindow = 1_024

/**
 * Records the size of an answered prompt that the endpoint counted (0 if it does not count). Returns the estimated
 * size, once per route, if the endpoint has read less than a third of the prompt: it has shortened the prompt to its
 * window without an error. A prompt with files does not show how the endpoint counts, because the estimate does not
 * include them.
 */
export const notePromptSize = (
  route: ProfiledRoute,
  counted: number,
  estimate: () => number,
  files = 0
): number | undefined => {
  if (counted < leastWindow) return undefined
  const profile = toMutable(route)
  const estimated = estimate()
  const isCut = counted * 3 < estimated
  // A shortened prompt does not show how the endpoint counts.
  if (!isCut && files === 0) profile.ratio = CallTokens.toPlausibleRatio(counted / Math.max(1, estimated))
  if (!isCut || profile.isCutReported) return undefined
  profile.isCutReported = true
  return estimated
}

/** Records the output limit of a request for which the caller did not choose one. */
export const noteDefaultLimit = (route: ProfiledRoute, limit: number | undefined): void => {
  toMutable(route).defaultLimit = limit
}
