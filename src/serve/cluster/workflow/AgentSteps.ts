/**
 * Agents as steps: one run of an agent, and a conversation that agents hand to each other.
 *
 * **Details**
 *
 * The session of an agent is the log of its work ({@link "../DurableRun.ts"}). Its id follows from the execution and
 * the step, so that the next process continues a run that was cut off.
 */
import type * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import type * as Schedule from "effect/Schedule"
import * as Schema from "effect/Schema"
import { Agent, type Service as AgentService } from "../../../agent/Agent.ts"
import type { RunOptions } from "../../../agent/RunInput.ts"
import * as AnswerFormat from "../../../base/domain/AnswerFormat.ts"
import { SessionId } from "../../../base/domain/Ids.ts"
import { isCompletedExit } from "../../../base/domain/RunEvent.ts"
import * as Digest from "../../../base/platform/Digest.ts"
import type { RunRecord } from "../../../store/RunRecord.ts"
import { SessionStore } from "../../../store/SessionStorePort.ts"
import * as DurableRun from "../DurableRun.ts"
import * as AgentQuestions from "./AgentQuestions.ts"
import {
  computeValue,
  type Place,
  retryStored,
  runStored,
  type StepServices,
  toPath,
  type ValueSchema
} from "./StepExecution.ts"
import { appendNode, type Block, type Extend, makeNode } from "./StepNodes.ts"
import { StepFailed, StepLimitReached } from "./WorkflowError.ts"

/** Services of a step that is an agent. */
export type AgentNeeds = Agent | RunRecord | SessionStore

/** Settings of the runs of an agent step. */
export type AgentRunOptions = Pick<
  RunOptions,
  | "budget"
  | "cwd"
  | "ephemeralSystemPrompt"
  | "maxIterations"
  | "questions"
  | "reasoningEffort"
  | "route"
  | "seed"
  | "stopTools"
  | "systemPrompt"
  | "tools"
>

/** Options of {@link addAgent}. `Self` is the key of the agent. */
export interface AgentOptions<State, A, Self = Agent> {
  /** Agent that runs. Defaults to the agent of the runtime. */
  readonly agent?: Context.Key<Self, AgentService> | undefined
  readonly prompt: RunOptions["prompt"] | ((state: NoInfer<State>) => RunOptions["prompt"])
  /** Schema of the value in which the run ends. Without it, the value is the text of the answer. */
  readonly output?: ValueSchema<A> | undefined
  /** Name of an earlier step that is an agent, whose session the run continues. A new session by default. */
  readonly continues?: (keyof NoInfer<State> & string) | undefined
  /** Settings of the run. Absent ones are the agent's. */
  readonly run?: AgentRunOptions | undefined
  /** Schedule by which a failed run is repeated, in its session. No repetition by default. */
  readonly retry?: Schedule.Schedule<unknown, StepFailed> | undefined
}

const describeError = ({ _tag, message }: { readonly _tag: string; readonly message: string }): string =>
  message.split("\n", 1)[0] || _tag

/** One run of an agent in a step. */
interface StepRun<A, Self> extends Omit<AgentOptions<never, A, Self>, "continues" | "prompt"> {
  readonly name: string
  readonly kind: string
  readonly sessionId: string
  /** True if the session has messages of earlier steps. */
  readonly isContinued: boolean
  readonly prompt: RunOptions["prompt"]
  readonly output: ValueSchema<A>
  /** True if the run ends in a value of `output`; false if the value is its text. */
  readonly isTyped: boolean
}

const countMessages = Effect.fnUntraced(function* (sessionId: string) {
  const store = yield* SessionStore
  const session = yield* store.get(yield* store.newest(SessionId.make(sessionId)))
  return Option.match(session, { onNone: () => 0, onSome: ({ messageCount }) => messageCount })
})

/** Runs an agent, or continues its run after the process was killed. Its value is stored once. */
const runAgent = <A, Self>(
  place: Place,
  { agent, isContinued, isTyped, kind, name, output, prompt, retry, run, sessionId }: StepRun<A, Self>
): Effect.Effect<A, StepFailed, AgentNeeds | Self | StepServices> =>
  Effect.gen(function* () {
    const path = toPath(place, name)
    const makeFailure = (reason: string, message: string) =>
      new StepFailed({ step: path, reason, message: `step ${path}: ${message}` })
    const firstPosition = isContinued
      ? yield* runStored(place, {
          name: `${name} position`,
          kind,
          isInner: true,
          output: Schema.Int,
          execute: () =>
            Effect.mapError(countMessages(sessionId), (error) => makeFailure(error._tag, describeError(error)))
        })
      : 0
    const format = yield* Effect.mapError(
      isTyped ? AnswerFormat.resolveOutput(output) : Effect.succeed(undefined),
      (error) => makeFailure(error._tag, describeError(error))
    )
    const work = Effect.gen(function* () {
      const done = yield* DurableRun.run({
        ...run,
        sessionId,
        firstPosition,
        prompt,
        source: "workflow",
        ...(format === undefined ? {} : { output: format })
      })
      if (format === undefined) {
        // Without a schema of the caller, the value is the text.
        return isCompletedExit(done.exit)
          ? (done.text as A)
          : yield* makeFailure(done.exit, `the run of the agent ended early (${done.exit})`)
      }
      const json = AnswerFormat.findJson(done.text)
      return yield* Effect.mapError(
        json === undefined ? Effect.fail("the answer is not JSON") : format.decode(JSON.parse(json)),
        (problem) => makeFailure("InvalidOutput", problem)
      )
    }).pipe(
      Effect.mapError((error) => {
        if (error instanceof StepFailed) return error
        // A run with a schema that waits for an answer fails for want of its value.
        const reason =
          error._tag === "InvalidOutput" && error.exit === "suspended" ? AgentQuestions.suspendedReason : error._tag
        return makeFailure(reason, describeError(error))
      })
    )
    const provided: Effect.Effect<A, StepFailed, AgentNeeds | Self> =
      agent === undefined ? work : Effect.provideServiceEffect(work, Agent, agent)
    const stored = runStored(place, {
      name,
      kind,
      output,
      sessionId,
      isPause: AgentQuestions.isSuspended,
      execute: () => provided
    })
    const ended = AgentQuestions.runUntilAnswered(place, { name, kind, sessionId, output }, stored, provided)
    return yield* retry === undefined ? ended : retryStored(ended, path, retry)
  })

const makeSessionId = (place: Place, name: string): string =>
  `workflow-${Digest.toHex(place.execution, 10)}-${toPath(place, name).replaceAll(/[^\w-]+/gu, "-")}`

/** Adds a run of an agent. Its value is the text of the answer, or the value of `output`. */
export const addAgent =
  <const Name extends string, State extends object, A = string, Self = Agent>(
    name: Exclude<Name, keyof State>,
    options: AgentOptions<State, A, Self>
  ) =>
  <Last, E, R>(
    self: Block<State, Last, E, R>
  ): Block<Extend<State, Name, A>, A, E, R | Self | RunRecord | SessionStore> =>
    appendNode<Extend<State, Name, A>, A, E, R | Self | RunRecord | SessionStore>(
      self,
      makeNode<never, Self | RunRecord | SessionStore>({
        name,
        kind: "agent",
        ...(options.continues === undefined ? {} : { detail: `continues ${options.continues}` }),
        // Without a schema, the value is a text.
        schemas: [options.output ?? Schema.String],
        run: (state, place) =>
          Effect.gen(function* () {
            const { continues, output, prompt } = options
            const earlier = continues === undefined ? undefined : place.sessions.get(continues)
            const sessionId = earlier ?? makeSessionId(place, name)
            const text = yield* computeValue(toPath(place, name), () =>
              // The state has the values of the earlier steps, with the types of the block.
              typeof prompt === "function" ? prompt(state as State) : prompt
            )
            const value = yield* runAgent(place, {
              ...options,
              name,
              kind: "agent",
              sessionId,
              isContinued: earlier !== undefined,
              isTyped: output !== undefined,
              prompt: text,
              // Without a schema, `A` is `string`.
              output: output ?? (Schema.String as ValueSchema<unknown> as ValueSchema<A>)
            }) as Effect.Effect<A, StepFailed, Self | RunRecord | SessionStore | StepServices>
            place.sessions.set(name, sessionId)
            return value
          })
      })
    )

/** An agent of a conversation that can be handed over. */
export interface HandoffAgent<Names extends string> {
  /** Subject of the agent, for the agents that may hand the conversation to it. */
  readonly description: string
  /** Instructions of this agent, beside the system prompt of the session. */
  readonly instructions: string
  /** Agents that it may hand the conversation to. */
  readonly handoffs?: ReadonlyArray<Names> | undefined
  readonly run?: Omit<AgentRunOptions, "ephemeralSystemPrompt"> | undefined
}

/** The answer of a conversation, and the agent that gave it. */
export interface HandoffAnswer<Names extends string, A> {
  readonly agent: Names
  readonly answer: A
}

/** Options of {@link addHandoff}. */
export interface HandoffOptions<State, Names extends string, A> {
  readonly agents: Readonly<Record<Names, HandoffAgent<NoInfer<Names>>>>
  /** Agent that reads the prompt. */
  readonly first: NoInfer<Names>
  readonly prompt: string | ((state: NoInfer<State>) => string)
  /** Schema of the answer. Defaults to a text. */
  readonly output?: ValueSchema<A> | undefined
  /** Maximum number of agents that take the conversation over. Defaults to 8. */
  readonly limit?: number | undefined
  readonly retry?: Schedule.Schedule<unknown, StepFailed> | undefined
}

const defaultHandoffs = 8

/** Answer of one agent: the answer of the conversation, or the name of the next agent. */
const makeHopSchema = <A>(output: ValueSchema<A>, targets: ReadonlyArray<string>) => {
  const answered = Schema.Struct({ answer: output as Schema.Codec<A, unknown> })
  return targets.length === 0
    ? answered
    : Schema.Union([answered, Schema.Struct({ handoff: Schema.Literals(targets), reason: Schema.String })])
}

/**
 * Adds a conversation that starts with one agent and may be handed to others, each with its own instructions and tools.
 * All of them work in one session, so that each reads what the others said. Every change of the agent is stored.
 */
export const addHandoff =
  <const Name extends string, State extends object, const Names extends string, A = string>(
    name: Exclude<Name, keyof State>,
    { agents, first, limit = defaultHandoffs, output, prompt, retry }: HandoffOptions<State, Names, A>
  ) =>
  <Last, E, R>(
    self: Block<State, Last, E, R>
  ): Block<Extend<State, Name, HandoffAnswer<Names, A>>, HandoffAnswer<Names, A>, E, R | AgentNeeds> => {
    // Without a schema, `A` is `string`.
    const answers = output ?? (Schema.String as ValueSchema<unknown> as ValueSchema<A>)
    const describeTargets = (targets: ReadonlyArray<Names>): string =>
      targets.length === 0
        ? ""
        : "\n\nYou may hand the conversation to one of these agents instead of answering:\n" +
          targets.map((target) => `- ${target}: ${agents[target].description}`).join("\n")
    return appendNode<Extend<State, Name, HandoffAnswer<Names, A>>, HandoffAnswer<Names, A>, E, R | AgentNeeds>(
      self,
      makeNode<never, AgentNeeds>({
        name,
        kind: "handoff",
        detail: Object.keys(agents).join(", "),
        schemas: [answers],
        run: (state, place) =>
          Effect.gen(function* () {
            const path = toPath(place, name)
            const sessionId = makeSessionId(place, name)
            let current: Names = first
            let asked = yield* computeValue(path, () =>
              // The state has the values of the earlier steps, with the types of the block.
              typeof prompt === "function" ? prompt(state as State) : prompt
            )
            for (let hop = 0; hop <= limit; hop++) {
              const { handoffs = [], instructions, run } = agents[current]
              const value = yield* runAgent(place, {
                agent: Agent,
                name: `${name}/${hop + 1}-${current}`,
                kind: "handoff",
                sessionId,
                isContinued: hop > 0,
                isTyped: true,
                prompt: asked,
                output: makeHopSchema(answers, handoffs) as ValueSchema<
                  { readonly answer: A } | { readonly handoff: string; readonly reason: string }
                >,
                run: { ...run, ephemeralSystemPrompt: `${instructions}${describeTargets(handoffs)}` },
                retry
              })
              if ("answer" in value) {
                place.sessions.set(name, sessionId)
                return { agent: current, answer: value.answer }
              }
              asked = `You take this conversation over from the agent ${current}: ${value.reason}`
              // The schema of the answer names the agents of `handoffs` alone.
              current = value.handoff as Names
            }
            return yield* new StepLimitReached({
              step: path,
              limit,
              message: `step ${path} was handed over ${limit} times without an answer: raise its limit`
            })
          })
      })
    )
  }
