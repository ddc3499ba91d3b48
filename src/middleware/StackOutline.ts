/**
 * Renders an outline of a stack as text or as an image. It shows the entries in order, with their sources and failure
 * policies, and the order in which each phase runs.
 */
import * as Lifecycle from "./Lifecycle.ts"
import type { Any } from "./Middleware.ts"
import type { OnFailure } from "./Kind.ts"

/** An entry of a stack and its source. */
export interface SourcedEntry {
  readonly middleware: Any
  readonly source: string
}

/** An entry of a stack for display. */
export interface OutlineEntry {
  readonly name: string
  readonly source: string
  readonly onFailure: OnFailure
  /** Phases of a run in which the entry takes part. All phases if its methods are created for each run. */
  readonly phases: ReadonlyArray<string>
}

/** Order of the entries in one phase of a run. */
export interface PhaseOrder {
  readonly phase: string
  readonly entries: ReadonlyArray<string>
}

/** Outline of a stack. */
export interface Outline {
  /** Entries of the stack, outermost first. */
  readonly stack: ReadonlyArray<OutlineEntry>
  /** Phases in the order of a run. Phases without middleware are omitted. */
  readonly phases: ReadonlyArray<PhaseOrder>
}

const listPhases = (entry: Any): ReadonlyArray<string> => {
  if (entry.kind !== "lifecycle") return [entry.kind]
  const { shared } = entry.run
  return Lifecycle.methodNames
    .filter((name) => shared === undefined || shared[name] !== undefined)
    .map(Lifecycle.toSnakeCase)
}

/** Phases of a run, in order. */
const places = [
  "before_agent",
  "before_model",
  "wrap_model_call",
  "stream_part",
  "llm_request",
  "llm_execution",
  "after_model",
  "tool_request",
  "before_tool",
  "wrap_tool_call",
  "tool_execution",
  "after_tool",
  "after_agent"
] as const

/** Creates the outline of entries in the order of the stack. */
export const make = (given: ReadonlyArray<SourcedEntry>): Outline => {
  const stack = given.map(({ middleware, source }): OutlineEntry => ({
    name: middleware.name,
    source,
    onFailure: middleware.run.onFailure,
    phases: listPhases(middleware)
  }))
  const phases = places.flatMap((phase): ReadonlyArray<PhaseOrder> => {
    const entries = stack.filter((entry) => entry.phases.includes(phase)).map(({ name }) => name)
    return entries.length === 0 ? [] : [{ phase, entries: phase.startsWith("after_") ? entries.toReversed() : entries }]
  })
  return { stack, phases }
}

const isWrapper = (phase: string): boolean => phase.startsWith("wrap_") || phase.endsWith("_execution")

/** Renders the outline as lines of text. */
export const renderText = ({ phases, stack }: Outline): string => {
  if (stack.length === 0)
    return "No middleware. Add some under middlewares in config.yaml, or enable a plugin that provides it."
  const width = Math.max(...stack.map(({ name }) => name.length))
  const from = Math.max(...stack.map(({ source }) => source.length))
  return [
    "Stack, outermost first:",
    ...stack.map(
      ({ name, onFailure, phases, source }, index) =>
        `  ${index + 1}. ${name.padEnd(width)}  ${source.padEnd(from)}  ` +
        `${onFailure === "closed" ? "fails closed" : "fails open  "}  ${phases.join(", ")}`
    ),
    "",
    "Order by phase:",
    ...phases.map(
      ({ entries, phase }) =>
        `  ${phase}: ${isWrapper(phase) ? `${entries.join(" ( ")} ( … ${")".repeat(entries.length)}` : entries.join(" → ")}`
    )
  ].join("\n")
}

/** Draws a box around lines, with a title in its upper edge. */
const drawBox = (title: string, lines: ReadonlyArray<string>): ReadonlyArray<string> => {
  const width = Math.max(title.length + 2, ...lines.map(({ length }) => length))
  return [
    `┌─ ${title} ${"─".repeat(width - title.length - 1)}┐`,
    ...lines.map((line) => `│ ${line.padEnd(width)} │`),
    `└${"─".repeat(width + 2)}┘`
  ]
}

/** Renders the outline as an image: a run from top to bottom, with wrappers as boxes around the wrapped operations. */
export const renderPicture = ({ phases }: Outline): string => {
  const listEntryNames = (phase: string): ReadonlyArray<string> =>
    phases.find((one) => one.phase === phase)?.entries ?? []
  const renderSteps = (phase: string): ReadonlyArray<string> => listEntryNames(phase).map((name) => `${phase}  ${name}`)
  const drawAround = (phase: string, inner: ReadonlyArray<string>): ReadonlyArray<string> =>
    listEntryNames(phase).reduceRight<ReadonlyArray<string>>((lines, name) => drawBox(`${phase} ${name}`, lines), inner)
  return drawBox("run", [
    ...renderSteps("before_agent"),
    ...drawBox("step", [
      ...renderSteps("before_model"),
      ...drawAround("wrap_model_call", [
        ...renderSteps("stream_part"),
        ...renderSteps("llm_request"),
        ...drawAround("llm_execution", ["model call"])
      ]),
      ...renderSteps("after_model"),
      ...drawBox("each tool call", [
        ...renderSteps("tool_request"),
        ...renderSteps("before_tool"),
        ...drawAround("wrap_tool_call", drawAround("tool_execution", ["tool"])),
        ...renderSteps("after_tool")
      ])
    ]),
    ...renderSteps("after_agent")
  ]).join("\n")
}
