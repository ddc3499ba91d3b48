/**
 * What to do about a list of instructions: tasks in steps, one step for each assistant message, and what to answer when
 * they are done.
 *
 * @since 0.1.0
 */
import type { Action, Instruction, Manner } from "./Instruction.ts"

type Single = Exclude<Action, { readonly type: "read" | "run" }>

/** The tool that the user wants used; `own` if it was named with this very task. */
export interface Hint {
  readonly tool: string
  readonly own: boolean
}

/** One tool call to make. */
export type Task =
  & (
    | Single
    | {
      readonly type: "read"
      readonly path: string
      readonly offset?: number
      readonly limit?: number
      readonly digest?: boolean
    }
    | { readonly type: "run"; readonly command: string }
  )
  & { readonly hint: Hint | undefined }

/** Tasks in the order of their assistant messages. */
export type Steps = ReadonlyArray<ReadonlyArray<Task>>

/** See the module. */
export interface Plan {
  readonly steps: Steps
  readonly answer:
    | { readonly type: "text"; readonly text: string }
    | { readonly type: "output" }
    | { readonly type: "show" }
  /** What takes a model. */
  readonly asks: ReadonlyArray<string>
  /** Work that is not understood, and so not done. */
  readonly unclear: ReadonlyArray<string>
  readonly recap: boolean
  readonly greeting: boolean
  readonly forbidden: ReadonlySet<string> | "all"
}

/** The file that was spoken of last, in a task or as the target of one. */
const lastPath = (steps: Steps): string | undefined => {
  for (const task of steps.flat().toReversed()) {
    if (task.type === "read" || task.type === "write" || task.type === "replace") return task.path
  }
  return undefined
}

/** An action as steps. Several files are read in one message, several commands run one after the other. */
const stepsOf = (action: Action, hint: Hint | undefined, before: string | undefined): Steps => {
  switch (action.type) {
    case "read": {
      const { paths, ...part } = action
      const named = paths.length > 0 ? paths : before === undefined ? [] : [before]
      return named.length === 0 ? [] : [named.map((path): Task => ({ ...part, path, hint }))]
    }
    case "run":
      return action.commands.map((command): ReadonlyArray<Task> => [{ type: "run", command, hint }])
    default:
      return [[{ ...action, hint }]]
  }
}

const same = (a: Action, b: Action): boolean => JSON.stringify(a) === JSON.stringify(b)

interface Draft {
  readonly steps: Array<ReadonlyArray<Task>>
  /** The wish that the next actions are done under, and where its steps begin. */
  wish: { readonly manner: Manner; readonly from: number } | undefined
}

/** Puts the steps of a wish into one message, or repeats its only task, as the wish says. */
const settle = (draft: Draft): void => {
  const { wish } = draft
  draft.wish = undefined
  if (wish === undefined) return
  const { times, together, tool } = wish.manner
  if (draft.steps.length === wish.from && tool !== undefined) draft.steps.push([{ type: "call", tool, text: "", hint: undefined }])
  const steps = draft.steps.splice(wish.from)
  const [only] = steps
  const task = steps.length === 1 && only?.length === 1 ? only : undefined
  const repeated = task !== undefined && times !== undefined && times > 1
    ? Array.from({ length: times }, () => task)
    : steps
  draft.steps.push(...(together ? [repeated.flat()] : repeated))
}

const add = (draft: Draft, action: Action, manner: Manner | undefined): void => {
  if (manner !== undefined && (manner.times !== undefined || manner.together)) {
    settle(draft)
    draft.wish = { manner, from: draft.steps.length }
  }
  const tool = manner?.tool ?? draft.wish?.manner.tool
  const hint = tool === undefined ? undefined : { tool, own: manner?.tool !== undefined }
  draft.steps.push(...stepsOf(action, hint, lastPath(draft.steps)))
  if (manner !== undefined && draft.wish?.manner === manner) settle(draft)
}

/** See the module. */
export const make = (instructions: ReadonlyArray<Instruction>): Plan => {
  const draft: Draft = { steps: [], wish: undefined }
  const asks: Array<string> = []
  const unclear: Array<string> = []
  const actions: Array<Action> = []
  let answer: Plan["answer"] = { type: "show" }
  let recap = false
  let greeting = false
  let forbidden: Set<string> | "all" = new Set<string>()
  const act = (action: Action, manner: Manner | undefined): void => {
    actions.push(action)
    add(draft, action, manner)
  }
  for (const instruction of instructions) {
    switch (instruction.type) {
      case "act":
        act(instruction.action, instruction.manner)
        break
      case "use":
        settle(draft)
        draft.wish = { manner: instruction.manner, from: draft.steps.length }
        break
      case "forbid":
        if (instruction.tools === "all") forbidden = "all"
        else if (forbidden !== "all") { for (const tool of instruction.tools) forbidden.add(tool) }
        break
      case "reply":
        answer = { type: "text", text: instruction.text }
        break
      case "reply-output":
      case "show": {
        const { of } = instruction
        if (of !== undefined && !actions.some((action) => same(action, of))) act(of, undefined)
        answer = { type: instruction.type === "show" ? "show" : "output" }
        break
      }
      case "recap":
        recap = true
        break
      case "greet":
        greeting = true
        break
      case "ask":
        asks.push(instruction.text)
        break
      case "unclear":
        unclear.push(instruction.text)
        break
      case "remark":
        break
    }
  }
  settle(draft)
  return { steps: draft.steps, answer, asks, unclear, recap, greeting, forbidden }
}
