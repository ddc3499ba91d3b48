/**
 * The tool `delegate_task`: assigns tasks to child agents and waits for their summaries, or runs one child in the
 * background.
 *
 * **Example** (An agent that may delegate work)
 *
 * ```ts
 * import * as Effect from "effect/Effect"
 * import { Delegate, FileTools, Runtime, ToolRegistry } from "hermes-effect"
 *
 * const runtime = Runtime.layer({ tools: [FileTools.toolset, Delegate.toolset] })
 *
 * const program = Effect.gen(function*() {
 *   const registry = yield* ToolRegistry.ToolRegistry
 *   return (yield* registry.snapshot(ToolRegistry.everything)).names.at(-1)
 * })
 *
 * console.log(await Effect.runPromise(Effect.provide(program, runtime)))
 * // => delegate_task
 * ```
 *
 * Source: `hermes-product.md` §3.1, §3.2 and §3.4.
 */
import * as Clock from "effect/Clock"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import * as Tool from "effect/ai/Tool"
import * as Toolkit from "effect/ai/Toolkit"
import { Timeout } from "../Annotations.ts"
import * as Json from "../../base/domain/Json.ts"
import { InteractiveMode } from "../approval/InteractiveMode.ts"
import * as Delegator from "../Delegator.ts"
import { ToolContext } from "../ToolContext.ts"
import * as Toolset from "../Toolset.ts"

const TaskParameter = Schema.Struct({
  goal: Schema.optionalKey(Schema.String),
  context: Schema.optionalKey(Schema.String),
  toolsets: Schema.optionalKey(Schema.Array(Schema.String)),
  role: Schema.optionalKey(Delegator.Role)
})
type TaskParameter = typeof TaskParameter.Type

/** Parameters of the tool. */
export const Parameters = Schema.Struct({
  goal: Schema.optionalKey(
    Schema.String.annotate({ description: "Self-contained: the child knows nothing of this conversation" })
  ),
  context: Schema.optionalKey(Schema.String.annotate({ description: "Facts: paths, constraints, findings so far" })),
  toolsets: Schema.optionalKey(
    Schema.Array(Schema.String).annotate({ description: "Out of your own, such as terminal, file. Default: all" })
  ),
  role: Schema.optionalKey(
    Delegator.Role.annotate({ description: "leaf (default) works alone; orchestrator may delegate further" })
  ),
  tasks: Schema.optionalKey(
    Schema.Union([Schema.Array(TaskParameter), Schema.String]).annotate({
      description: "Instead of goal: independent tasks that run side by side"
    })
  ),
  background: Schema.optionalKey(
    Schema.Boolean.annotate({
      description: "Do not wait: the report comes as a message later, if one can come. For one goal, not for tasks"
    })
  )
})

/** Result for the model after it waited for its children. */
export const Result = Schema.Struct({
  results: Schema.Array(Delegator.ChildReport),
  total_duration_seconds: Schema.Finite,
  note: Schema.optionalKey(Schema.String)
})

/** Result for the model when nothing was delegated. */
export const Refusal = Schema.Struct({ success: Schema.Literal(false), error: Schema.String })

const description =
  "Gives a task to a child agent with a fresh conversation and tools of its own, waits for it, and returns its " +
  "summary. For work whose detail would fill this conversation, and, with tasks, for several independent pieces of " +
  "work. Not for a single tool call. status and exit_reason of each result say whether its work is whole: partial " +
  "work is never called completed."

/** The tool `delegate_task`. */
export const tool = Tool.make("delegate_task", {
  description,
  parameters: Parameters,
  success: Schema.Union([Result, Delegator.Dispatched]),
  failure: Refusal,
  failureMode: "return",
  dependencies: [ToolContext]
})
  .annotate(Tool.Readonly, false)
  .annotate(Tool.Destructive, false)
  .annotate(Tool.Idempotent, false)
  .annotate(Timeout, Duration.infinity)

const makeRefusal = (error: string) => ({ success: false as const, error })

const decodeTasks = Schema.decodeUnknownOption(Schema.Array(TaskParameter))

/** Returns the tasks of a call, or the reason why they cannot be read. Some models send the list as JSON text. */
const readTasks = (params: typeof Parameters.Type): ReadonlyArray<TaskParameter> | string => {
  const { background: _, tasks, ...single } = params
  if (tasks === undefined) return [single]
  if (params.goal !== undefined) return "give either goal or tasks, not both"
  if (typeof tasks !== "string") return tasks
  const parsed = Option.flatMap(Json.parse(tasks), decodeTasks)
  return Option.getOrElse(parsed, () => "tasks is not a list of { goal, context, toolsets, role }")
}

const toTask = (task: TaskParameter): Delegator.Task | undefined =>
  task.goal === undefined || task.goal.trim() === ""
    ? undefined
    : { ...task, goal: task.goal, role: task.role ?? "leaf" }

const delegateTasks = Effect.fnUntraced(function* (params: typeof Parameters.Type) {
  const asked = readTasks(params)
  if (typeof asked === "string") return yield* Effect.fail(makeRefusal(asked))
  const tasks = asked.map(toTask)
  const whole = tasks.filter((task) => task !== undefined)
  if (whole.length === 0 || whole.length < tasks.length) {
    return yield* Effect.fail(makeRefusal("each task needs a goal that says what to do"))
  }
  const delegator = yield* Delegator.Delegator
  const [single] = whole
  if (params.background === true && whole.length > 1) {
    return yield* Effect.fail(makeRefusal("background is for a single task: give one goal, or wait for the tasks"))
  }
  // In an unattended run, no later turn could receive the result, so the call waits for the child.
  if (single !== undefined && params.background === true && (yield* InteractiveMode)._tag === "Attended") {
    return yield* Effect.mapError(delegator.dispatch(single), ({ message }) => makeRefusal(message))
  }
  const started = yield* Clock.currentTimeMillis
  const results = yield* Effect.mapError(delegator.delegate(whole), ({ message }) => makeRefusal(message))
  const stale = new Set(results.flatMap(({ stale_paths = [] }) => stale_paths))
  return {
    results,
    total_duration_seconds: ((yield* Clock.currentTimeMillis) - started) / 1000,
    ...(stale.size === 0
      ? {}
      : {
          note:
            `Changed since you read them: ${[...stale].join(", ")}. Read them again before you use what you know ` +
            "of them."
        })
  }
})

const toolkit = Toolkit.make(tool)

/** The toolset `delegation`. */
export const toolset: Toolset.Toolset = Toolset.make(
  "delegation",
  toolkit,
  toolkit.toLayer({ delegate_task: delegateTasks })
)
