/**
 * The graph of a workflow as data, and as Mermaid text for a page.
 */
import * as Digest from "../../../base/platform/Digest.ts"
import type { StepEntry } from "./WorkflowStore.ts"

/** Kinds of steps. */
export type StepKind =
  | "agent"
  | "all"
  | "branch"
  | "child"
  | "forEach"
  | "handoff"
  | "loop"
  | "question"
  | "sleep"
  | "step"

/** A sequence of steps inside a step: a case of a branch, the body of a loop. */
export interface StepBranch {
  readonly label: string
  readonly steps: ReadonlyArray<StepShape>
}

/** A step of a workflow, without its code. */
export interface StepShape {
  readonly name: string
  readonly kind: StepKind
  /** Fact about the step for readers: agents of a handoff, the limit of a loop. */
  readonly detail?: string | undefined
  readonly branches: ReadonlyArray<StepBranch>
}

/** The graph of a workflow. */
export interface WorkflowShape {
  readonly name: string
  readonly version: number
  readonly steps: ReadonlyArray<StepShape>
}

const namePattern = /^[A-Za-z][\w-]{0,63}$/u

/** Lists all steps, with those inside other steps. */
const listSteps = (steps: ReadonlyArray<StepShape>): ReadonlyArray<StepShape> =>
  steps.flatMap((step) => [step, ...step.branches.flatMap((branch) => listSteps(branch.steps))])

/** Throws with one line if the definition of a workflow is not valid: a name is malformed, or two steps share one. */
export const checkShape = ({ name, steps, version }: WorkflowShape): void => {
  const checkName = (one: string, subject: string): void => {
    if (!namePattern.test(one)) {
      throw new Error(
        `workflow ${name}: the name of ${subject} is ${JSON.stringify(one)}: use at most 64 letters, ` +
          "digits, _ and -, with a letter first"
      )
    }
  }
  checkName(name, "the workflow")
  if (!Number.isSafeInteger(version) || version < 1)
    throw new Error(`workflow ${name}: version is ${version}: use a whole number from 1`)
  const known = new Set<string>()
  for (const step of listSteps(steps)) {
    checkName(step.name, "a step")
    if (known.has(step.name))
      throw new Error(`workflow ${name}: two steps have the name "${step.name}": give each step a name of its own`)
    known.add(step.name)
  }
}

/** Computes the digest of a definition: its steps, and the JSON Schemas of their values. */
export const computeDigest = (shape: WorkflowShape, schemas: ReadonlyArray<unknown>): string =>
  Digest.toHex(JSON.stringify([shape.steps, schemas]), 16)

/** State of a step over all of its executions, in the loops and lists that contain it. */
const summarizeState = (entries: ReadonlyArray<StepEntry>): StepEntry["state"] | undefined =>
  (["failed", "waiting", "running", "done"] as const).find((state) => entries.some((entry) => entry.state === state))

const escapeLabel = (text: string): string => text.replaceAll(/["\n<>]/gu, " ")

const shapes: Readonly<Record<StepKind, readonly [string, string]>> = {
  agent: ["(", ")"],
  all: ["[[", "]]"],
  branch: ["{", "}"],
  child: ["[[", "]]"],
  forEach: ["[[", "]]"],
  handoff: ["(", ")"],
  loop: ["{{", "}}"],
  question: ["{", "}"],
  sleep: ["([", "])"],
  step: ["[", "]"]
}

/** The last nodes of a sequence, from which the next step follows, each with the label of its arrow. */
type Ends = ReadonlyArray<readonly [node: string, label: string]>

/**
 * Returns the graph of a workflow as Mermaid text (`flowchart TD`). `entries` colours the steps by their state in an
 * execution.
 */
export const toMermaid = (shape: WorkflowShape, entries: ReadonlyArray<StepEntry> = []): string => {
  const lines = ["flowchart TD", "  begin([begin])"]
  const drawArrows = (from: Ends, to: string): void => {
    for (const [node, label] of from) lines.push(`  ${node} -->${label === "" ? "" : `|${escapeLabel(label)}|`} ${to}`)
  }
  const drawStep = (before: Ends, { branches, detail, kind, name }: StepShape): Ends => {
    const node = `step_${name}`
    const [open, close] = shapes[kind]
    const label = `${kind === "step" ? "" : `${kind}: `}${name}${detail === undefined ? "" : ` (${detail})`}`
    lines.push(`  ${node}${open}"${escapeLabel(label)}"${close}`)
    const state = summarizeState(entries.filter((entry) => entry.name === name))
    if (state !== undefined) lines.push(`  class ${node} ${state}`)
    drawArrows(before, node)
    if (branches.length === 0) return [[node, ""]]
    const ends = branches.map(({ label, steps }) => steps.reduce<Ends>(drawStep, [[node, label]]))
    if (kind === "branch" || kind === "all") return ends.flat()
    for (const end of ends) drawArrows(end, node)
    return [[node, ""]]
  }
  drawArrows(shape.steps.reduce<Ends>(drawStep, [["begin", ""]]), "done([done])")
  if (entries.length > 0) {
    lines.push(
      "  classDef done fill:#d5f0d5",
      "  classDef running fill:#d5e5f5",
      "  classDef waiting fill:#f8eec8",
      "  classDef failed fill:#f5d5d5"
    )
  }
  return lines.join("\n")
}
