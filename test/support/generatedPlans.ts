// Plans of runs made of a seed: what the model says, how its tools and servers fail, where the run is interrupted, and
// how it goes on.
import * as Prompt from "effect/ai/Prompt"
import type { protocols, WireTurn } from "./wireModel.ts"

/** Random choices, the same for the same seed. */
export interface Dice {
  readonly below: (limit: number) => number
  readonly chance: (share: number) => boolean
  readonly of: <A>(items: readonly [A, ...ReadonlyArray<A>]) => A
}

export const dice = (seed: number): Dice => {
  let state = (seed * 2_654_435_761 + 12_345) >>> 0
  const next = (): number => {
    state = (Math.imul(state ^ (state >>> 15), 0x2c1b3c6d) + 0x9e3779b9) >>> 0
    return (state >>> 8) / 0x100_0000
  }
  const below = (limit: number): number => Math.floor(next() * limit)
  return { below, chance: (share) => next() < share, of: (items) => items[below(items.length)] ?? items[0] }
}

/** What the model does when it is asked next. */
export type Move =
  | { readonly kind: "say"; readonly turn: WireTurn }
  | { readonly kind: "refuse"; readonly status: number }
  /** The stream ends in the middle; a whole answer where nothing is streamed. */
  | { readonly kind: "break"; readonly turn: WireTurn; readonly how: "ended" | "lost" }
  /** Nothing more comes: the run is interrupted then. */
  | { readonly kind: "hang"; readonly text: string }

export type Mode = keyof typeof protocols | "scripted"
export type RoutedMode = "chat_completions" | "anthropic_messages" | "codex_responses"
const modes: readonly [Mode, ...ReadonlyArray<Mode>] = [
  "scripted",
  "chat_completions",
  "anthropic_messages",
  "codex_responses",
  "bedrock_converse"
]

const alphabets = [
  "plain words ",
  "ä€😀 \n",
  '"quoted" \\ {json} ',
  "<b>&amp;</b>\t",
  "שלום 世界 ",
  "<plugin-context>in</plugin-context> "
] as const

/** A value that the program holds as a secret: no view has it. */
export const heldSecret = "hldQz7Xw93LmVt52KpRb81Ns"

const textOf = (dice: Dice, name: string): string => {
  const size = dice.chance(0.04) ? 100_000 : dice.chance(0.2) ? 3_000 : 30
  const piece = dice.chance(0.08) ? `it is ${heldSecret} here ` : dice.of(alphabets)
  return `${name} ${piece.repeat(Math.ceil(size / piece.length))}.`
}

/** A picture of the smallest size. */
export const picture = Uint8Array.from(atob("R0lGODlhAQABAIAAAAUEBAAAACwAAAAAAQABAAACAkQBADs="), (char) =>
  char.charCodeAt(0)
)

/** Every text that is generated begins with a name of its own. */
const namer = () => {
  let count = 0
  return (what: string): string => `${what}#${++count}#`
}

const callOf = (
  dice: Dice,
  name: (what: string) => string,
  canHang: boolean
): { readonly name: string; readonly args: string } => {
  const text = textOf(dice, name("argument"))
  const kind = dice.below(canHang ? 16 : 15)
  if (kind === 13) return { name: "draws", args: JSON.stringify({ text }) }
  if (kind === 14)
    return {
      name: "script",
      args: JSON.stringify({ texts: Array.from({ length: dice.below(4) }, () => textOf(dice, name("nested"))) })
    }
  if (kind < 4) return { name: "echo", args: JSON.stringify({ text }) }
  if (kind < 6) return { name: "note", args: JSON.stringify({ text }) }
  if (kind === 6) return { name: "fails", args: JSON.stringify({ text }) }
  if (kind === 7) return { name: "dies", args: JSON.stringify({ text }) }
  if (kind === 8) return { name: "wipe", args: JSON.stringify({ text }) }
  if (kind === 9) return { name: "no_such_tool", args: JSON.stringify({ text }) }
  if (kind === 10)
    return { name: "echo", args: dice.of(["[1]", "not json", `{"text": "cut in the mid`, "{}", `{"text": 5}`]) }
  if (kind === 11) return { name: "delegate_task", args: JSON.stringify({ goal: textOf(dice, name("goal")) }) }
  if (kind === 12) {
    return {
      name: "delegate_task",
      args: JSON.stringify(
        dice.chance(0.4)
          ? { goal: name("goal"), background: true }
          : { tasks: [{ goal: name("goal") }, { goal: name("goal") }] }
      )
    }
  }
  return { name: "waits", args: JSON.stringify({ text }) }
}

const moveOf = (dice: Dice, name: (what: string) => string): Move => {
  const kind = dice.below(20)
  const said = (): string => textOf(dice, name("answer"))
  if (kind === 0) return { kind: "refuse", status: dice.of([500, 529, 429]) }
  if (kind === 1) return { kind: "break", turn: { text: said() }, how: dice.of(["ended", "lost"]) }
  if (kind === 2) return { kind: "hang", text: dice.chance(0.5) ? said() : "" }
  if (kind === 3) return { kind: "say", turn: { text: said(), cut: true } }
  if (kind === 4) return { kind: "say", turn: { text: "" } }
  if (kind === 5) return { kind: "say", turn: { text: said() } }
  if (kind === 6) return { kind: "refuse", status: 401 }
  const calls = Array.from({ length: 1 + (dice.chance(0.5) ? 0 : dice.below(4)) }, () => ({
    id: dice.chance(0.1) ? "call_0" : name("call").replaceAll("#", "_"),
    ...callOf(dice, name, true)
  }))
  return {
    kind: "say",
    turn: {
      ...(dice.chance(0.4) ? { text: said() } : {}),
      ...(dice.chance(0.2) ? { thought: textOf(dice, name("thought")) } : {}),
      calls
    }
  }
}

/** One run of a session. */
export interface PlannedRun {
  readonly prompt: string | ReadonlyArray<Prompt.UserMessagePart>
  readonly moves: ReadonlyArray<Move>
  readonly maxIterations: number
  readonly end: "interrupt" | "stop"
  /** Number of the event or the write to the store at which it is ended; it is left alone when absent. */
  readonly endsAt: number | undefined
  readonly title: string | undefined
  /** Name of the side task that has the title's words for its question. */
  readonly task: "title" | "vision" | "summary" | "approval"
}

const isRouted = (mode: Mode): mode is RoutedMode =>
  mode === "chat_completions" || mode === "anthropic_messages" || mode === "codex_responses"

/** All that follows from a seed. */
export interface Plan {
  readonly seed: number
  readonly mode: Mode
  readonly streaming: boolean
  readonly runs: ReadonlyArray<PlannedRun>
  readonly withContext: boolean
  readonly rewritesRequests: boolean
  readonly rewritesArguments: boolean
  readonly addsMessages: boolean
  readonly approves: "once" | "deny"
  /** Protocols of two routes, of which the second is asked when the first cannot answer; one provider when absent. */
  readonly routes: readonly [RoutedMode, RoutedMode] | undefined
  /** Each run has a runtime of its own, as a program that is started again has. */
  readonly restarts: boolean
  /** A conversation that grew has a note in the place of its beginning, which is sent and not stored. */
  readonly compacts: boolean
  /**
   * Number of the run whose process dies where the run would be ended; the next one finds what was on the disk then.
   */
  readonly dies: number | undefined
}

/** A session of 200 messages. */
const longPlan = (seed: number, mode: Mode, d: Dice, name: (what: string) => string): Plan => ({
  seed,
  mode,
  streaming: d.chance(0.5),
  runs: Array.from({ length: 100 }, () => ({
    prompt: name("prompt"),
    moves: [{ kind: "say", turn: { text: name("answer") } }],
    maxIterations: 20,
    end: "stop",
    endsAt: undefined,
    title: undefined,
    task: "title"
  })),
  withContext: false,
  rewritesRequests: false,
  rewritesArguments: false,
  addsMessages: false,
  approves: "once",
  routes: undefined,
  restarts: false,
  compacts: false,
  dies: undefined
})

const promptOf = (d: Dice, text: string): PlannedRun["prompt"] => {
  if (!d.chance(0.15)) return text
  const image = d.chance(0.5)
    ? Prompt.filePart({ mediaType: "image/gif", data: picture })
    : Prompt.filePart({ mediaType: "image/png", data: new URL(`https://pictures.test/${d.below(1_000)}.png`) })
  return [Prompt.textPart({ text }), image]
}

export const planOf = (seed: number): Plan => {
  const d = dice(seed)
  const name = namer()
  const mode = modes[seed % modes.length] ?? "scripted"
  if (d.chance(0.02)) return longPlan(seed, mode, d, name)
  const plan: Plan = {
    seed,
    mode,
    streaming: d.chance(0.6),
    runs: Array.from({ length: 1 + d.below(3) }, () => ({
      prompt: promptOf(d, textOf(d, name("prompt"))),
      moves: Array.from({ length: 1 + d.below(5) }, () => moveOf(d, name)),
      maxIterations: d.chance(0.3) ? 1 + d.below(2) : 20,
      end: d.of(["interrupt", "stop"]),
      endsAt: d.chance(0.35) ? 1 + d.below(40) : undefined,
      title: d.chance(0.4) ? name("title") : undefined,
      task: d.of(["title", "vision", "summary", "approval"])
    })),
    withContext: d.chance(0.3),
    rewritesRequests: d.chance(0.2),
    rewritesArguments: d.chance(0.2),
    addsMessages: d.chance(0.2),
    approves: d.of(["once", "deny"]),
    routes:
      isRouted(mode) && d.chance(0.4)
        ? [mode, d.of(["chat_completions", "anthropic_messages", "codex_responses"])]
        : undefined,
    restarts: d.chance(0.2),
    compacts: d.chance(0.2),
    dies: undefined
  }
  // A run comes after one that dies.
  if (plan.runs.length < 2 || !d.chance(0.3)) return plan
  const dies = d.below(plan.runs.length - 1)
  const endsAt = 1 + d.below(25)
  return {
    ...plan,
    dies,
    restarts: true,
    runs: plan.runs.map((run, index) => (index === dies ? { ...run, endsAt } : run))
  }
}
