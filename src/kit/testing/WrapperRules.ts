/**
 * Rules for a wrapper of model calls or tool calls whose own work fails. They cover each row of the table of failures.
 * A rule makes the wrapper fail before `next`, after it or in its `onPart`, and checks the result of the run.
 *
 * **Details**
 *
 * The subject creates a runtime with the wrapper in it, whose own work (a cache, a log, a judge) is replaced by
 * {@link Faults}: `before` and `after` replace its work around `next`, `part` replaces its work in `onPart`. They do
 * nothing, die, hang or are interrupted, as the rule requires. The rule is broken if one of the wrapper's `places` is
 * never reached.
 *
 * | the wrapper | open | closed |
 * | --- | --- | --- |
 * | fails before `next` | the call continues without it, with a warning | `MiddlewareFailure` |
 * | fails after `next` succeeded | the result of `next`, with a warning; no call runs twice | `MiddlewareFailure` |
 * | fails after `next` failed | the failure of `next`, retried as without the wrapper | `MiddlewareFailure` |
 * | hangs, or interrupts itself | the same result as a failure | `MiddlewareFailure` |
 * | fails in `onPart` | the shown text is the stored text; content that the wrapper removed stays removed | `MiddlewareFailure`, and shown text is retracted |
 * | is interrupted with its run | the run ends without a retry | the same |
 *
 * For a wrapper of tool calls `MiddlewareFailure` is the error that the model receives; both name the wrapper.
 *
 * **Gotchas**
 *
 * Pass all parts of a rule to the runtime (`{ ...parts, middleware: [mine] }`), and no other middleware. Rules for
 * `"closed"` apply only to wrappers that support it (`policies`).
 *
 * **Example** (The rules of a wrapper that writes an audit log)
 *
 * ```ts
 * import * as Effect from "effect/Effect"
 * import * as Layer from "effect/Layer"
 * import { Middleware, Runtime } from "hermes-effect"
 * import { Conformance, WrapperRules } from "hermes-effect/testing"
 *
 * // In an application `write` is a request to a database.
 * const audit = (write: (line: string) => Effect.Effect<void>, onFailure: "open" | "closed") =>
 *   Middleware.toolExecution({
 *     name: "audit",
 *     onFailure,
 *     wrap: (next) => (args) => Effect.andThen(write("begins"), Effect.onExit(next(args), () => write("has ended")))
 *   })
 *
 * const subject = Layer.succeed(WrapperRules.Subject, {
 *   name: "audit",
 *   wraps: "tool",
 *   policies: ["open", "closed"],
 *   runtime: (parts, { after, before, onFailure }) =>
 *     Runtime.layer({ ...parts, middleware: [audit((line) => line === "begins" ? before : after, onFailure)] })
 * })
 * const results = await Effect.runPromise(Conformance.runRules(WrapperRules.rules, subject))
 *
 * console.log(results.filter(({ broken }) => broken !== undefined))
 * // => []
 * ```
 *
 * Source: `ARCHITECTURE.md` §6.
 */
import * as Context from "effect/Context"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import type * as Layer from "effect/Layer"
import type * as Agent from "../../agent/Agent.ts"
import { MiddlewareFailure } from "../../base/domain/AgentError.ts"
import * as Runtime from "../../program/Runtime.ts"
import * as Check from "./Check.ts"
import * as Conformance from "./Conformance.ts"
import { type PlayedEnd, advanceClockUntilDone, type Parts, play, type PlayOptions, type Script } from "./PlayedRuns.ts"

/** Places at which a wrapper does its own work: before `next`, after `next`, or in `onPart`. */
export type WrapperPlace = "before" | "after" | "part"

/** Replacements for the wrapper's own work, as required by a rule. */
export interface Faults {
  /** Work before the wrapper calls `next`. */
  readonly before: Effect.Effect<void>
  /** Work after `next` succeeded or failed. */
  readonly after: Effect.Effect<void>
  /** Work in `onPart`, for each list of parts before the list is passed on. */
  readonly part: Effect.Effect<void>
  readonly onFailure: "open" | "closed"
}

/** A wrapper under test. */
export interface TestedWrapper {
  /** Name with which the wrapper is registered. */
  readonly name: string
  /** Kind of the wrapped calls. */
  readonly wraps: "model" | "tool"
  /** Places that the wrapper reaches in a successful run. Default: `before` and `after`. */
  readonly places?: ReadonlyArray<WrapperPlace> | undefined
  /** Policies with which the wrapper can be registered. Default: only `open`. */
  readonly policies?: ReadonlyArray<"open" | "closed"> | undefined
  /** Creates a runtime from the parts, with the wrapper in it. */
  readonly runtime: (parts: Parts, faults: Faults) => Layer.Layer<Agent.Agent, unknown>
}

/** The subject of the rules for wrappers. */
export class Subject extends Context.Service<Subject, TestedWrapper>()("hermes-effect/testing/WrapperSubject") {}

/** A kind of failure. */
type Fault = "dies" | "hangs" | "interrupts itself"

const faults: Readonly<Record<Fault, Effect.Effect<void>>> = {
  dies: Effect.die(new Error("its own work failed")),
  hangs: Effect.never,
  "interrupts itself": Effect.interrupt
}

/** A place that fails, starting at a given visit. */
interface Plan extends PlayOptions {
  readonly script: Script
  readonly place?: WrapperPlace
  readonly fault?: Fault
  readonly onFailure?: "open" | "closed"
  /** Number of successful visits of the place before it fails. */
  readonly spared?: number
  /** True if the run is interrupted when the place is reached. */
  readonly interruptsRun?: boolean
}

/** Plays a script with one place that fails, and returns how often each place was visited. */
const playWithFault = (
  { runtime }: TestedWrapper,
  { fault = "dies", interruptsRun = false, onFailure = "open", place, script, spared = 0, ...played }: Plan
) =>
  Effect.gen(function* () {
    const reached = yield* Deferred.make<void>()
    const visits: Record<WrapperPlace, number> = { before: 0, after: 0, part: 0 }
    const visitPlace = (one: WrapperPlace) =>
      Effect.suspend(() => {
        visits[one]++
        if (one !== place || visits[one] <= spared) return Effect.void
        return Effect.andThen(Deferred.succeed(reached, undefined), faults[fault])
      })
    const faulty: Faults = {
      before: visitPlace("before"),
      after: visitPlace("after"),
      part: visitPlace("part"),
      onFailure
    }
    const end = yield* play((parts) => runtime(parts, faulty), script, {
      ...played,
      ...(interruptsRun ? { interruptedAt: Deferred.await(reached) } : {})
    })
    return { end, visits }
  })

const playWithoutWrapper = (script: Script, played: PlayOptions = {}) =>
  play((parts) => Runtime.layer(parts), script, played)

const selectGoodScript = ({ wraps }: TestedWrapper): Script => (wraps === "model" ? "answer" : "tool")
const selectFailingScripts = ({ wraps }: TestedWrapper): ReadonlyArray<Script> =>
  wraps === "model" ? ["failed model", "failed model in its text"] : ["failed tool", "tool with a fault"]

/** Returns the end of a run without its warnings. */
const selectOutcome = ({ exit, isDefect, isInterrupted, notes, requests, results, text }: PlayedEnd) => ({
  exit,
  isDefect,
  isInterrupted,
  notes,
  requests,
  results,
  text
})

const hasPlace = ({ places = ["before", "after"] }: TestedWrapper, place: WrapperPlace): boolean =>
  places.includes(place)

const checkWarned = ({ warnings }: PlayedEnd, name: string): void =>
  Check.holds(
    warnings.some((line) => line.includes(`"${name}"`) && line.includes("failed")),
    `a warning should name ${name}: ${warnings.join("; ")}`
  )

/** Fails unless the run fails with the wrapper's failure, or the model receives it. */
const checkClosed = (end: PlayedEnd, { name, wraps }: TestedWrapper): void => {
  if (wraps === "model") {
    Check.holds(
      end.failure instanceof MiddlewareFailure && end.failure.middleware === name,
      `the run should fail with MiddlewareFailure of ${name}, and came to ${end.exit}`
    )
    return
  }
  const [result] = end.results
  Check.equals([end.exit, result?.status], ["text_response", "error"], "the model should be told that the call failed")
  Check.includes(result?.output, name, "the result of the call should name the wrapper")
}

/** Creates a check that makes the wrapper fail at a place. The failure must not change the result of the run. */
const checkStaysOpen = (place: WrapperPlace, plan: Omit<Plan, "script" | "place"> = {}) =>
  Effect.fnUntraced(function* (tested: TestedWrapper) {
    if (!hasPlace(tested, place)) return
    const script = selectGoodScript(tested)
    const { end, visits } = yield* playWithFault(tested, { ...plan, script, place })
    Check.holds(
      visits[place] > 0,
      `the wrapper never came to ${place}: leave it out of places, or run faults.${place} there`
    )
    Check.equals(selectOutcome(end), selectOutcome(yield* playWithoutWrapper(script)))
    checkWarned(end, tested.name)
  })

/** Creates a check that makes the wrapper fail at a place. The call must then fail. */
const checkFailsClosed = (place: WrapperPlace, plan: Omit<Plan, "script" | "place"> = {}) =>
  Effect.fnUntraced(function* (tested: TestedWrapper) {
    if (!hasPlace(tested, place) || tested.policies?.includes("closed") !== true) return
    const { end, visits } = yield* playWithFault(tested, {
      ...plan,
      script: selectGoodScript(tested),
      place,
      onFailure: "closed"
    })
    Check.holds(
      visits[place] > 0,
      `the wrapper never came to ${place}: leave it out of places, or run faults.${place} there`
    )
    checkClosed(end, tested)
    Check.holds(end.notes <= 1 && end.requests <= 2, "nothing should run twice")
    if (place === "part") Check.equals(end.shown, "", "text of an answer that is refused should be taken back")
  })

interface Body {
  (tested: TestedWrapper): Effect.Effect<void, unknown>
}

const defineRule = (about: string, name: string, body: Body): Conformance.Rule<Subject> =>
  Conformance.makeRule(about, name, Subject.use(body))

/** Defines a rule in which deadlines pass immediately. */
const defineTimedRule = (about: string, name: string, body: Body): Conformance.Rule<Subject> =>
  Conformance.makeTimedRule(
    about,
    name,
    Subject.use((tested) => advanceClockUntilDone(body(tested)))
  )

/** The rules for wrappers. */
export const rules: ReadonlyArray<Conformance.Rule<Subject>> = [
  defineRule(
    "no fault",
    "comes to its places, and is not reported to have failed",
    Effect.fnUntraced(function* (tested) {
      const { end, visits } = yield* playWithFault(tested, { script: selectGoodScript(tested) })
      for (const place of tested.places ?? ["before", "after"])
        Check.holds(
          visits[place] > 0,
          `the wrapper never came to ${place}: leave it out of places, or run faults.${place} there`
        )
      Check.equals(
        end.warnings.filter((line) => /middleware "[^"]*" failed/u.test(line)),
        []
      )
    })
  ),
  defineRule(
    "no fault",
    "the failure of a call stays that failure",
    Effect.fnUntraced(function* (tested) {
      for (const script of selectFailingScripts(tested))
        Check.equals(
          selectOutcome((yield* playWithFault(tested, { script })).end),
          selectOutcome(yield* playWithoutWrapper(script)),
          script
        )
    })
  ),
  defineTimedRule(
    "no fault",
    "a failure that may pass is retried",
    Effect.fnUntraced(function* (tested) {
      if (tested.wraps === "tool") return
      const played = { attempts: 2 }
      Check.equals(
        selectOutcome((yield* playWithFault(tested, { script: "model that fails once", ...played })).end),
        selectOutcome(yield* playWithoutWrapper("model that fails once", played))
      )
    })
  ),
  defineRule("before next", "fails open: the call goes on without it, with a warning", checkStaysOpen("before")),
  defineRule(
    "before next",
    "interrupts itself: that is its failure, and not the run's interruption",
    checkStaysOpen("before", { fault: "interrupts itself" })
  ),
  defineTimedRule(
    "before next",
    "hangs: its deadline ends it, and the call goes on without it",
    checkStaysOpen("before", { fault: "hangs" })
  ),
  defineRule(
    "before next",
    "fails closed: the call fails with its name, and nothing below runs",
    Effect.fnUntraced(function* (tested) {
      yield* checkFailsClosed("before")(tested)
      if (!hasPlace(tested, "before") || tested.policies?.includes("closed") !== true) return
      const { end } = yield* playWithFault(tested, {
        script: selectGoodScript(tested),
        place: "before",
        onFailure: "closed"
      })
      Check.equals(tested.wraps === "model" ? end.requests : end.notes, 0, "what lies below should not run")
    })
  ),
  defineRule(
    "after next succeeded",
    "fails open: the value from below stands and nothing runs twice, with a warning",
    checkStaysOpen("after")
  ),
  defineRule(
    "after next succeeded",
    "interrupts itself: that is its failure, and not the run's interruption",
    checkStaysOpen("after", { fault: "interrupts itself" })
  ),
  defineTimedRule(
    "after next succeeded",
    "hangs: its deadline ends it, and the value from below stands",
    checkStaysOpen("after", { fault: "hangs" })
  ),
  defineRule("after next succeeded", "fails closed: the call fails with its name", checkFailsClosed("after")),
  defineRule(
    "after next failed",
    "fails open: the failure from below stands",
    Effect.fnUntraced(function* (tested) {
      if (!hasPlace(tested, "after")) return
      for (const script of selectFailingScripts(tested)) {
        const { end } = yield* playWithFault(tested, { script, place: "after" })
        Check.equals(selectOutcome(end), selectOutcome(yield* playWithoutWrapper(script)), script)
      }
    })
  ),
  defineTimedRule(
    "after next failed",
    "fails open: a failure that may pass is retried all the same",
    Effect.fnUntraced(function* (tested) {
      if (!hasPlace(tested, "after") || tested.wraps === "tool") return
      const played = { attempts: 2 }
      const { end } = yield* playWithFault(tested, { script: "model that fails once", place: "after", ...played })
      Check.equals(selectOutcome(end), selectOutcome(yield* playWithoutWrapper("model that fails once", played)))
    })
  ),
  defineRule(
    "after next failed",
    "fails closed: the call fails with its name where it came to that",
    Effect.fnUntraced(function* (tested) {
      if (!hasPlace(tested, "after") || tested.policies?.includes("closed") !== true) return
      for (const script of selectFailingScripts(tested)) {
        const { end, visits } = yield* playWithFault(tested, { script, place: "after", onFailure: "closed" })
        if (visits.after > 0) checkClosed(end, tested)
      }
    })
  ),
  ...[0, 1].map((spared) =>
    defineRule(
      "in onPart",
      `fails open ${spared === 0 ? "at once" : "half-way"}: the text that is shown is kept, or its end is said`,
      Effect.fnUntraced(function* (tested) {
        if (!hasPlace(tested, "part")) return
        const script = selectGoodScript(tested)
        const { end, visits } = yield* playWithFault(tested, { script, place: "part", spared })
        Check.holds(
          visits.part > spared,
          "the wrapper never came to part: leave it out of places, or run faults.part there"
        )
        Check.equals(end.shown, end.text, "the text that is shown should be the text that is kept")
        const { text } = yield* playWithoutWrapper(script)
        Check.holds(
          end.exit === "content_filtered" || end.text === text,
          `${JSON.stringify(end.text)} is not the whole answer, and the run says ${end.exit}`
        )
        checkWarned(end, tested.name)
      })
    )
  ),
  defineRule(
    "in onPart",
    "fails closed: the call fails with its name, and nothing stays shown",
    checkFailsClosed("part", { spared: 1 })
  ),
  ...(["before", "after"] as const).map((place) =>
    defineRule(
      "interruption",
      `of the run ${place === "before" ? "before" : "after"} next ends it: nothing else is asked`,
      Effect.fnUntraced(function* (tested) {
        if (!hasPlace(tested, place)) return
        const { end, visits } = yield* playWithFault(tested, {
          script: selectGoodScript(tested),
          place,
          fault: "hangs",
          interruptsRun: true
        })
        const seen = {
          interrupted: end.isInterrupted,
          isDefect: end.isDefect,
          below: tested.wraps === "model" ? end.requests : end.notes
        }
        Check.equals(seen, { interrupted: true, isDefect: false, below: place === "before" ? 0 : 1 })
        Check.equals(visits[place], 1, "the wrapper should be called once")
      })
    )
  )
]
