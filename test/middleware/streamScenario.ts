// Random chains around a streamed answer, and a small model of what is shown, and what the answer is. The model knows
// the rules of the architecture and nothing of the implementation.
import { type Outcome, type Wrapper as Plain } from "./scenario.ts"

/** What an `onPart` does with what arrives. `at` counts the calls of it. */
export type Does =
  | "none"
  | "pass"
  | "mark"
  | "cut"
  | "hold"
  | "hold until"
  | "replace held"
  | "die"
  | "mark then die"
  | "hang"
  | "hold then die"
/** What the wrapper does with the answer. */
export type After = "return" | "change" | "nothing" | "die" | "fail" | "hang"

export interface Wrapper {
  readonly id: number
  readonly form: Plain["form"]
  readonly closed: boolean
  readonly does: Does
  readonly at: number
  readonly after: After
}

/** A `streamPart` method. */
export interface Stage extends Pick<Wrapper, "id" | "closed" | "at"> {
  readonly does: "pass" | "mark" | "cut" | "die" | "mark then die"
}

export interface Scenario {
  readonly kind: "llm_execution" | "wrap_model_call"
  readonly wrappers: ReadonlyArray<Wrapper>
  /** In their order, around whole calls: inside of all wrappers of these, outside of all wrappers of attempts. */
  readonly stages: ReadonlyArray<Stage>
  readonly pieces: ReadonlyArray<string>
  /** False for an answer that comes whole. */
  readonly streams: boolean
  readonly base: "value" | "fail" | "die"
}

export interface Expectation {
  readonly outcome: Outcome
  /** Pieces of text as they reached the reader. */
  readonly shown: ReadonlyArray<string>
}

export const generateStream = (next: () => number): Scenario => {
  const pick = <A>(...choices: ReadonlyArray<A>): A => choices[Math.floor(next() * choices.length)] as A
  const kind = pick<Scenario["kind"]>("llm_execution", "wrap_model_call")
  return {
    kind,
    base: pick("value", "value", "value", "value", "fail", "die"),
    pieces: Array.from({ length: Math.floor(next() * 6) }, (_, index) => `p${index};`),
    stages:
      kind === "llm_execution"
        ? []
        : Array.from({ length: Math.floor(next() * 3) }, (_, index): Stage => ({
            id: 10 + index,
            closed: next() < 0.2,
            does: pick("pass", "mark", "cut", "die", "mark then die"),
            at: 1 + Math.floor(next() * 4)
          })),
    wrappers: Array.from({ length: 1 + Math.floor(next() * 4) }, (_, id): Wrapper => ({
      id,
      form: pick("typed", "plain", "async"),
      closed: next() < 0.25,
      does: pick<Does>(
        "none",
        "pass",
        "mark",
        "mark",
        "cut",
        "hold",
        "hold",
        "hold until",
        "replace held",
        "die",
        "mark then die",
        "mark then die",
        "hang",
        "hold then die"
      ),
      at: 1 + Math.floor(next() * 4),
      after: pick<After>("return", "return", "return", "change", "nothing", "die", "fail", "hang")
    })),
    streams: next() < 0.7
  }
}

/** What one call of an `onPart` comes to. */
export type Step =
  | { readonly _tag: "parts"; readonly texts: ReadonlyArray<string> }
  | { readonly _tag: "hold" }
  | { readonly _tag: "broken"; readonly how: "die" | "hang" }

const marked = (id: number, text: string): string => `<${id}${text}>`

/** `call` counts from 1; `texts` are all that it sees. */
export const stepOf = (
  { at, does, id }: Pick<Wrapper, "at" | "does" | "id">,
  call: number,
  texts: ReadonlyArray<string>
): Step => {
  const parts = (texts: ReadonlyArray<string>): Step => ({ _tag: "parts", texts })
  switch (does) {
    case "none":
    case "pass":
      return parts(texts)
    case "mark":
      return parts(texts.map((text) => marked(id, text)))
    case "cut":
      return parts(call === at ? [] : texts)
    case "hold":
      return { _tag: "hold" }
    case "hold until":
      return call < at ? { _tag: "hold" } : parts(texts)
    case "replace held":
      return call < at ? { _tag: "hold" } : parts(call === at ? [`r${id};`] : texts)
    case "die":
    case "hang":
      return call < at ? parts(texts) : { _tag: "broken", how: does }
    case "mark then die":
      return call < at ? parts(texts.map((text) => marked(id, text))) : { _tag: "broken", how: "die" }
    case "hold then die":
      return call < at ? { _tag: "hold" } : { _tag: "broken", how: "die" }
  }
}

/** A closed wrapper's `onPart` failed: nothing more is read. */
class Ended extends Error {
  readonly id: number
  constructor(id: number) {
    super()
    this.id = id
  }
}

export const expectedStream = ({ base, kind, pieces, stages, streams, wrappers }: Scenario): Expectation => {
  const shown: Array<string> = []
  type Read = (texts: ReadonlyArray<string>) => void
  type Call = (up: Read) => Outcome

  const runBase: Call = (read) => {
    if (streams) for (const piece of pieces) read([piece])
    if (base === "value") return { _tag: "value", value: pieces.join("") }
    return base === "fail" ? { _tag: "fail", error: "base" } : { _tag: "die", defect: "base" }
  }

  /** The stages: one that fails lets its parts pass, or, once it changed any, nothing more. */
  const staged =
    (inner: Call): Call =>
    (up) => {
      if (stages.length === 0) return inner(up)
      const guards = new Set<Stage>()
      const calls = new Map<Stage, number>()
      const came: Array<string> = []
      const through: Array<string> = []
      let cut = false
      let replaces = false
      const read: Read = (texts) => {
        came.push(...texts)
        let now = texts
        for (const stage of stages) {
          if (cut) continue
          const call = (calls.get(stage) ?? 0) + 1
          calls.set(stage, call)
          const step = stepOf(stage, call, now)
          if (step._tag === "hold") continue
          if (step._tag === "parts") {
            if (step.texts.join() !== now.join() || step.texts.length !== now.length) guards.add(stage)
            now = step.texts
            continue
          }
          if (stage.closed) throw new Ended(stage.id)
          if (guards.has(stage)) cut = true
        }
        if (cut) return
        through.push(...now)
        if (now.length > 0 && !replaces) up(now)
      }
      try {
        const below = inner(read)
        if (below._tag === "value" && below.value !== came.join("")) {
          // What did not stream, or is another answer, is read whole.
          replaces = came.length > 0
          came.length = through.length = 0
          read(below.value === "" ? [] : [below.value])
        }
        return below._tag === "value" && below.value === came.join("")
          ? { _tag: "value", value: through.join("") }
          : below
      } catch (error) {
        if (error instanceof Ended && error.id >= 10) return { _tag: "fail", error: `closed${error.id}` }
        throw error
      }
    }

  const frame =
    (index: number, innermost: Call): Call =>
    (up) => {
      const wrapper = wrappers[index]
      if (wrapper === undefined) return innermost(up)
      const { after, closed, does, form, id } = wrapper
      const through: Array<string> = []
      const came: Array<string> = []
      let held: Array<string> = []
      let calls = 0
      let broken = false
      let changed = false
      /** Once it changed anything in whichever answer, it guards what comes behind its failure. */
      let guards = false
      let replaces = false
      const pass: Read = (texts) => {
        through.push(...texts)
        if (texts.length > 0 && !replaces) up(texts)
      }
      const read: Read = (texts) => {
        came.push(...texts)
        // Behind one that took something out, nothing more is shown.
        if (broken) return void (guards ? (changed = true) : pass(texts))
        const all = [...held, ...texts]
        const step = stepOf(wrapper, ++calls, all)
        if (step._tag === "hold") return void (held = all)
        held = []
        if (step._tag === "parts") {
          changed ||= step.texts.join() !== all.join() || step.texts.length !== all.length
          guards ||= changed
          return pass(step.texts)
        }
        if (closed) throw new Ended(id)
        broken = true
        if (guards) changed = true
        else pass(all)
      }
      let below: Outcome
      try {
        below = frame(index + 1, innermost)(does === "none" ? up : read)
        if (does !== "none" && below._tag === "value" && below.value !== came.join("")) {
          // What did not stream, or is another answer, is read whole.
          replaces = came.length > 0
          if (replaces) held = []
          came.length = through.length = 0
          changed = false
          read(below.value === "" ? [] : [below.value])
        }
      } catch (error) {
        if (error instanceof Ended && error.id === id) return { _tag: "fail", error: `closed${id}` }
        throw error
      }
      // The wrappers of this generator pass every failure on.
      if (below._tag !== "value") return below
      const value: Outcome = changed ? { _tag: "value", value: [...through, ...held].join("") } : below
      const stands = (): Outcome => {
        if (held.length > 0 && !replaces) up(held)
        return value
      }
      const failed = (): Outcome => (closed ? { _tag: "fail", error: `closed${id}` } : stands())
      switch (after) {
        case "return":
        case "nothing":
          return stands()
        case "change":
          return { _tag: "value", value: `changed${id};` }
        case "fail":
          return form === "typed" ? { _tag: "fail", error: `fail${id}` } : failed()
        case "die":
        case "hang":
          return failed()
      }
    }

  const call = kind === "wrap_model_call" ? frame(0, staged(runBase)) : staged(frame(0, runBase))
  const outcome = call((texts) => void shown.push(...texts))
  return { outcome, shown }
}
