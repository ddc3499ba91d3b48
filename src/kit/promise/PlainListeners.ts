/**
 * Listeners of hooks as plain functions, with their options.
 *
 * **Details**
 *
 * A listener receives the payload of its hook and the `context` of the run. It may return a promise, and an answer if
 * the hook accepts one. Listeners with options are objects: a time limit in seconds, the delivery of an observer, and
 * the treatment of a guard that fails.
 */
import * as Duration from "effect/Duration"
import * as Json from "../../base/domain/Json.ts"
import type { Hook } from "../../hooks/Hook.ts"
import * as Hooks from "../../hooks/Hooks.ts"
import { type HookEvents, type HookName, names as hookNames } from "../../hooks/Payloads.ts"
import { type RunScope, withRunScope } from "./PlainContext.ts"
import * as Options from "./PlainOptions.ts"

type Listener<Name extends HookName, Context> = (event: HookEvents[Name], scope: RunScope<Context>) => unknown

/** A listener with options. */
interface NamedListener<Name extends HookName, Context> {
  readonly listener: Listener<Name, Context>
  /** Name in warnings. Default: the name of the function. */
  readonly name?: string | undefined
  /** Time limit in seconds. Default: 5 for an observer, 30 for a listener that may answer. */
  readonly timeout?: number | undefined
  /** `queued`: the run does not wait for this observer. Default: `inline`. */
  readonly mode?: "inline" | "queued" | undefined
  /** Maximum number of queued events. Default: 1024. */
  readonly capacity?: number | undefined
  /** `closed`: a failed `pre_tool_call` listener blocks the call. Default: `open`. */
  readonly onFailure?: "open" | "closed" | undefined
}

type OneListener<Name extends HookName, Context> = Listener<Name, Context> | NamedListener<Name, Context>

/** Listeners, by the name of their hook: one, or several that are called in order. */
export type Listeners<Context = unknown> = {
  readonly [Name in HookName]?: OneListener<Name, Context> | ReadonlyArray<OneListener<Name, Context>> | undefined
}

/** Settings of all listeners. */
export interface HookLimits {
  /** Maximum number of characters of a request or response in a payload. Default: 50 000. */
  readonly payloadMaxChars?: number | undefined
  /** Time limit of listeners that may answer, in seconds. Default: 30. */
  readonly answerTimeout?: number | undefined
}

type AnyListener = NamedListener<HookName, never>

const toHook = (name: string, given: AnyListener["listener"] | AnyListener): Hook => {
  const {
    capacity,
    listener,
    mode,
    name: label,
    onFailure,
    timeout
  } = typeof given === "function" ? ({ listener: given } as AnyListener) : given
  const options = {
    label: label ?? listener.name,
    ...(timeout === undefined ? {} : { deadline: Duration.seconds(timeout) }),
    ...(mode === undefined ? {} : { mode }),
    ...(capacity === undefined ? {} : { capacity }),
    ...(onFailure === undefined ? {} : { onFailure })
  }
  return Hooks.fromPlain(
    name,
    withRunScope(listener as (event: Readonly<Record<string, unknown>>, scope: RunScope<never>) => unknown),
    options
  )
}

/** Converts listeners to hooks. */
export const toHooks = (on: Listeners<never>): ReadonlyArray<Hook> =>
  Object.entries(on).flatMap(([name, given]) =>
    // The record's type pairs each name with its event, but its entries do not preserve the pairing.
    [(given ?? []) as AnyListener | ReadonlyArray<AnyListener>].flat().map((one) => toHook(name, one))
  )

/** Converts the settings of all listeners. */
export const toHookSettings = ({ answerTimeout, payloadMaxChars }: HookLimits): Hooks.Settings => ({
  payloadMaxChars,
  answerDeadline: answerTimeout === undefined ? undefined : Duration.seconds(answerTimeout)
})

const listenerOptions: Options.Checks<AnyListener> = {
  listener: Options.callback,
  name: Options.text,
  timeout: Options.duration,
  mode: Options.makeChoiceCheck(["inline", "queued"]),
  capacity: Options.count,
  onFailure: Options.makeChoiceCheck(["open", "closed"])
}

const checkNamed = Options.makeMembersCheck("option of a listener", listenerOptions, ["listener"])

const checkListener: Options.Check = (value, at) =>
  Json.isFields(value) ? checkNamed(value, at) : Options.callback(value, at)

const checkListeners: Options.Check = (value, at) =>
  Array.isArray(value)
    ? Array.from(value, (one: unknown, index) => checkListener(one, `${at}[${index}]`)).flat()
    : checkListener(value, at)

/** Check for the option `on`. */
export const listenersCheck = Options.makeMembersCheck(
  "hook",
  Object.fromEntries(hookNames.map((name) => [name, checkListeners]))
)

const limits: Options.Checks<HookLimits> = { payloadMaxChars: Options.count, answerTimeout: Options.duration }

/** Check for the option `hookLimits`. */
export const hookLimitsCheck = Options.makeMembersCheck("option of hookLimits", limits)
