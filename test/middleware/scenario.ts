// Random chains of execution middleware, and a small model of what each must come to. The model knows the failure table
// of the architecture and nothing of the implementation.

/** What a wrapper does until it has, or does not have, a result from below. */
export type Before = "next" | "die" | "veto" | "short" | "nothing"
/** What it does with a value from below. */
export type AfterValue = "return" | "change" | "die" | "fail" | "nothing" | "again"
/** What it does with a failure from below. */
export type AfterFailure = "pass" | "swallow" | "translate" | "die" | "nothing" | "again"

export interface Wrapper {
  readonly id: number
  readonly form: "typed" | "plain" | "async"
  readonly closed: boolean
  readonly before: Before
  readonly afterValue: AfterValue
  readonly afterFailure: AfterFailure
  /** Keeps `next` and calls it once more when everything is over. */
  readonly leaks: boolean
}

export interface Scenario {
  readonly wrappers: ReadonlyArray<Wrapper>
  readonly base: "value" | "fail" | "die" | "interrupt"
}

export type Outcome =
  | { readonly _tag: "value"; readonly value: string }
  | { readonly _tag: "fail"; readonly error: string }
  | { readonly _tag: "die"; readonly defect: string }
  | { readonly _tag: "interrupt" }

export interface Expectation {
  readonly outcome: Outcome
  readonly baseRuns: number
}

/** Deterministic pseudo-random numbers (mulberry32). */
export const random = (seed: number) => () => {
  seed = (seed + 0x6d2b79f5) | 0
  let t = Math.imul(seed ^ (seed >>> 15), 1 | seed)
  t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t
  return ((t ^ (t >>> 14)) >>> 0) / 4294967296
}

export const generate = (next: () => number): Scenario => {
  const pick = <A>(...choices: ReadonlyArray<A>): A => choices[Math.floor(next() * choices.length)] as A
  const depth = 1 + Math.floor(next() * 6)
  return {
    base: pick("value", "value", "fail", "fail", "die", "interrupt"),
    wrappers: Array.from({ length: depth }, (_, id): Wrapper => ({
      id,
      form: pick("typed", "plain", "async"),
      closed: next() < 0.2,
      before: pick<Before>("next", "next", "next", "next", "next", "die", "veto", "short", "nothing"),
      afterValue: pick<AfterValue>("return", "return", "change", "die", "fail", "nothing", "again"),
      afterFailure: pick<AfterFailure>("pass", "pass", "swallow", "translate", "die", "nothing", "again"),
      leaks: next() < 0.1
    }))
  }
}

const value = (text: string): Outcome => ({ _tag: "value", value: text })
const fail = (error: string): Outcome => ({ _tag: "fail", error })

/** What the wrapper itself comes to, before the table is applied. */
type Own = Outcome | { readonly _tag: "nothing" }

export const expected = ({ base, wrappers }: Scenario): Expectation => {
  let baseRuns = 0

  const runBase = (): Outcome => {
    baseRuns++
    switch (base) {
      case "value":
        return value("base")
      case "fail":
        return fail("base")
      case "die":
        return { _tag: "die", defect: "base" }
      case "interrupt":
        return { _tag: "interrupt" }
    }
  }

  const own = (wrapper: Wrapper, below: () => Outcome): { readonly own: Own; readonly below: Outcome | undefined } => {
    const { id } = wrapper
    const died: Own = { _tag: "die", defect: `own${id}` }
    switch (wrapper.before) {
      case "die":
        return { own: died, below: undefined }
      case "veto":
        return { own: fail(`veto${id}`), below: undefined }
      case "short":
        return { own: value(`short${id}`), below: undefined }
      case "nothing":
        return { own: { _tag: "nothing" }, below: undefined }
      case "next":
        break
    }
    const result = below()
    if (result._tag === "interrupt") return { own: result, below: result }
    if (result._tag === "value") {
      switch (wrapper.afterValue) {
        case "return":
          return { own: result, below: result }
        case "change":
          return { own: value(`changed${id}`), below: result }
        case "nothing":
          return { own: { _tag: "nothing" }, below: result }
        // A throw after success is the plain function's own trouble; a typed failure is intended.
        case "fail":
          return { own: wrapper.form === "typed" ? fail(`fail${id}`) : died, below: result }
        default:
          return { own: died, below: result }
      }
    }
    // A typed wrapper of this generator does not look at defects; a plain one can not tell them from failures.
    if (result._tag === "die" && wrapper.form === "typed") return { own: result, below: result }
    switch (wrapper.afterFailure) {
      case "pass":
        return { own: result, below: result }
      case "swallow":
        return { own: value(`swallowed${id}`), below: result }
      case "nothing":
        return { own: { _tag: "nothing" }, below: result }
      case "translate":
        return { own: result._tag === "die" ? died : fail(`translated${id}`), below: result }
      case "die":
      case "again":
        // A plain function that throws after a failure translates it.
        return { own: wrapper.form === "typed" || result._tag === "die" ? died : fail(`translated${id}`), below: result }
    }
  }

  const frame = (index: number): Outcome => {
    const wrapper = wrappers[index]
    if (wrapper === undefined) return runBase()
    const { below, own: did } = own(wrapper, () => frame(index + 1))
    if (did._tag === "value" || did._tag === "fail" || did._tag === "interrupt") return did
    if (did._tag === "die" && below?._tag === "die" && did.defect === below.defect) return below
    if (did._tag === "nothing" && below !== undefined) return below
    if (wrapper.closed) return fail(`closed${wrapper.id}`)
    return below ?? frame(index + 1)
  }

  const outcome = frame(0)
  return { outcome, baseRuns }
}
