// Random chains of middleware of all six kinds, and a small model of what each must come to. The model knows the
// failure table of the architecture and nothing of the implementation.

/** Kinds that wrap a call. Those of plain functions are single use. */
export const executionKinds = ["tool_execution", "llm_execution", "wrap_tool_call", "wrap_model_call"] as const
export type ExecutionKind = (typeof executionKinds)[number]

/**
 * What a wrapper does until it has, or does not have, a result from below. Those of {@link flights} end while `next`
 * runs.
 */
export type Before =
  | "next"
  | "pass on"
  | "die"
  | "veto"
  | "short"
  | "garbage"
  | "nothing"
  | "hang"
  | "interrupt"
  | "flight throw"
  | "flight nothing"
  | "flight answer"
  | "flight twice"
  | "flight veto"
/** What it does with a value from below. */
export type AfterValue = "return" | "change" | "garbage" | "die" | "fail" | "nothing" | "again" | "hang" | "interrupt"
/** What it does with a failure from below. */
export type AfterFailure =
  | "pass"
  | "swallow"
  | "garbage"
  | "translate"
  | "die"
  | "nothing"
  | "again"
  | "hang"
  | "interrupt"

const flights = ["flight throw", "flight nothing", "flight answer", "flight twice", "flight veto"] as const

/** True for a wrapper that ends while the call below still runs. */
export const isInFlight = ({ before }: Wrapper): boolean => flights.some((flight) => flight === before)

export interface Wrapper {
  readonly id: number
  readonly form: "typed" | "plain" | "async"
  readonly closed: boolean
  readonly before: Before
  readonly afterValue: AfterValue
  readonly afterFailure: AfterFailure
  /** Chooses among the values that are no result of the kind. */
  readonly wrong: number
  /** Keeps `next` and calls it once more when everything is over. */
  readonly leaks: boolean
  /** Tries to change what it is given, and what comes from below. */
  readonly mutates: boolean
}

export interface Scenario {
  readonly kind: ExecutionKind
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

const picker =
  (next: () => number) =>
  <A>(...choices: ReadonlyArray<A>): A =>
    choices[Math.floor(next() * choices.length)] as A

/** True if a wrapper can return a value that is none of its kind: any value is a result of a plain tool wrapper. */
const hasGarbage = (kind: ExecutionKind, form: Wrapper["form"]): boolean => form === "typed" || kind === "llm_execution"

const hasPlain = (kind: ExecutionKind): boolean => kind === "tool_execution" || kind === "llm_execution"

export const generate = (next: () => number): Scenario => {
  const pick = picker(next)
  const depth = 1 + Math.floor(next() * 6)
  const kind = pick(...executionKinds)
  return {
    kind,
    base: pick("value", "value", "fail", "fail", "die", "interrupt"),
    wrappers: Array.from({ length: depth }, (_, id): Wrapper => {
      const form = hasPlain(kind) ? pick<Wrapper["form"]>("typed", "plain", "async") : "typed"
      const flying: ReadonlyArray<Before> = form === "typed" ? [] : flights
      return {
        id,
        form,
        closed: next() < 0.2,
        before: pick<Before>(
          "next",
          "next",
          "next",
          "next",
          "next",
          "next",
          "pass on",
          "pass on",
          "die",
          "veto",
          "short",
          ...(hasGarbage(kind, form) ? ["garbage" as const] : []),
          "nothing",
          "hang",
          "interrupt",
          ...flying
        ),
        afterValue: pick<AfterValue>(
          "return",
          "return",
          "change",
          ...(hasGarbage(kind, form) ? ["garbage" as const] : []),
          "die",
          "fail",
          "nothing",
          "again",
          "hang",
          "interrupt"
        ),
        afterFailure: pick<AfterFailure>(
          "pass",
          "pass",
          "swallow",
          ...(hasGarbage(kind, form) ? ["garbage" as const] : []),
          "translate",
          "die",
          "nothing",
          "again",
          "hang",
          "interrupt"
        ),
        wrong: Math.floor(next() * 1_000),
        leaks: next() < 0.1,
        mutates: next() < 0.3
      }
    })
  }
}

const value = (text: string): Outcome => ({ _tag: "value", value: text })
const fail = (error: string): Outcome => ({ _tag: "fail", error })

/** What the wrapper itself comes to, before the table is applied. */
type Own = Outcome | { readonly _tag: "nothing" }

export const expected = ({ base, kind, wrappers }: Scenario): Expectation => {
  let baseRuns = 0
  const isSingleUse = hasPlain(kind)

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
    const again = (result: Outcome, refused: Own): { readonly own: Own; readonly below: Outcome } => {
      if (isSingleUse) return { own: refused, below: result }
      const second = below()
      return { own: second, below: second }
    }
    switch (wrapper.before) {
      case "die":
      case "garbage":
      case "hang":
      case "interrupt":
        return { own: died, below: undefined }
      case "veto":
        return { own: fail(`veto${id}`), below: undefined }
      case "short":
        return { own: value(`short${id}`), below: undefined }
      case "nothing":
        return { own: { _tag: "nothing" }, below: undefined }
      case "next":
        break
      case "pass on": {
        const result = below()
        return { own: result, below: result }
      }
      default: {
        // The call below is waited for; what came from there stands, except against a veto.
        const result = below()
        if (result._tag === "interrupt") return { own: result, below: result }
        return { own: wrapper.before === "flight veto" ? fail(`veto${id}`) : died, below: result }
      }
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
        case "again":
          return again(result, died)
        default:
          return { own: died, below: result }
      }
    }
    // A typed wrapper of this generator does not look at defects; a plain one can not tell them from failures.
    if (result._tag === "die" && wrapper.form === "typed") return { own: result, below: result }
    // A plain function that throws after a failure translates it.
    const thrown: Own = wrapper.form === "typed" || result._tag === "die" ? died : fail(`translated${id}`)
    switch (wrapper.afterFailure) {
      case "pass":
        return { own: result, below: result }
      case "swallow":
        return { own: value(`swallowed${id}`), below: result }
      case "nothing":
        return { own: { _tag: "nothing" }, below: result }
      case "translate":
        return { own: result._tag === "die" ? died : fail(`translated${id}`), below: result }
      case "garbage":
      case "hang":
        return { own: died, below: result }
      case "again":
        return again(result, thrown)
      case "die":
      case "interrupt":
        return { own: thrown, below: result }
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

/** What request middleware does with the payload. */
export interface Rewriter {
  readonly id: number
  readonly form: "typed" | "plain" | "async"
  readonly closed: boolean
  readonly does: "nothing" | "rewrite" | "die" | "veto" | "hang" | "interrupt" | "keep"
  readonly mutates: boolean
}

export interface Pipeline {
  readonly kind: "llm_request" | "tool_request"
  readonly rewriters: ReadonlyArray<Rewriter>
}

export const generatePipeline = (next: () => number): Pipeline => {
  const pick = picker(next)
  return {
    kind: pick("llm_request", "tool_request"),
    rewriters: Array.from({ length: 1 + Math.floor(next() * 6) }, (_, id): Rewriter => ({
      id,
      form: pick("typed", "plain", "async"),
      closed: next() < 0.15,
      does: pick<Rewriter["does"]>(
        "nothing",
        "nothing",
        "rewrite",
        "rewrite",
        "keep",
        "die",
        "veto",
        "hang",
        "interrupt"
      ),
      mutates: next() < 0.4
    }))
  }
}

/** The ids that rewrote the payload, in order, or the failure. */
export const expectedPayload = ({ rewriters }: Pipeline): Outcome => {
  const ids: Array<number> = []
  for (const { closed, does, id } of rewriters) {
    if (does === "rewrite" || does === "keep") ids.push(id)
    else if (does === "veto") return fail(`veto${id}`)
    else if (does !== "nothing" && closed) return fail(`closed${id}`)
  }
  return value(ids.join())
}
