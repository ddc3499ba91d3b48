/**
 * The operations of an agent: runs, streams, continuations, calls of tools and compaction, over the services of its
 * context. `Agent` loads this module with the first agent.
 */
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Stream from "effect/Stream"
import type { AgentError } from "../base/domain/AgentError.ts"
import * as Ids from "../base/domain/Ids.ts"
import { RunRecorder } from "../base/domain/RunRecorder.ts"
import * as RunSurroundings from "../base/domain/RunSurroundings.ts"
import type * as RunContext from "../base/domain/RunContext.ts"
import type { QuestionError } from "../base/domain/Question.ts"
import type { RunEvent, RunResult } from "../base/domain/RunEvent.ts"
import type * as Middleware from "../middleware/Middleware.ts"
import * as EntryServices from "../middleware/EntryServices.ts"
import type { Options, Service } from "./Agent.ts"
import * as AgentParts from "./AgentParts.ts"
import * as OwnedSessions from "./OwnedSessions.ts"
import * as AgentSpans from "./AgentSpans.ts"
import * as CallTool from "./CallTool.ts"
import * as BackgroundReview from "./BackgroundReview.ts"
import * as EventHandoff from "./EventHandoff.ts"
import * as Continuation from "./Continuation.ts"
import * as ContextFit from "./ContextFit.ts"
import * as RunEnd from "./RunEnd.ts"
import * as MemoryTurns from "./MemoryTurns.ts"
import { addRunDetails, emit, type Lineage, noteEnd } from "./RunState.ts"
import * as RunLifecycle from "./RunLifecycle.ts"
import * as Resumption from "./Resumption.ts"
import * as RunConditions from "./RunConditions.ts"
import * as RunConduct from "./RunConduct.ts"
import * as RunStart from "./RunStart.ts"
import type { ResumeOptions, RunOptions, StartOptions } from "./RunInput.ts"
import { type MiddlewareFailure, Services } from "./Services.ts"
import * as Tenancy from "./Tenancy.ts"
import * as SessionOpening from "./SessionOpening.ts"

/** Number of events by which a slow reader of {@link Service.stream} may lag before the run waits for it. */
const streamBuffer = 256

/** Creates the operations of an agent, whose middleware requires `Needs`; see `Agent.make`. */
export const makeService = <Needs>({
  middleware,
  outermost = [],
  ...settings
}: Options<ReadonlyArray<Middleware.Any>>) =>
  Effect.gen(function* () {
    const { selectServices, services } = yield* AgentParts.collectServices(settings, outermost, middleware ?? [])
    const built = yield* Effect.context<Needs>()
    const joinServices = RunSurroundings.makeJoin(Context.add(built, EntryServices.AgentContext, built))
    const memories = yield* MemoryTurns.makeNotifier

    const sessions = yield* OwnedSessions.makeSessions(services, memories)
    const compact = ({
      focus,
      keepExchanges,
      ...input
    }: RunStart.CompactInput): Effect.Effect<ContextFit.CompactionResult, AgentError, Services> =>
      Effect.scoped(
        Effect.gen(function* () {
          const isOwn = yield* sessions.requireOwn(input.sessionId).pipe(
            Effect.as(true),
            Effect.catchTag("SessionNotFound", () => Effect.succeed(false))
          )
          const { id } = isOwn
            ? yield* sessions.acquireSession(input.sessionId)
            : { id: Ids.SessionId.make(input.sessionId) }
          const session = isOwn ? Option.getOrUndefined(yield* services.store.get(id)) : undefined
          if (session === undefined || session.messageCount === 0) {
            const nothing = { messages: 0, tokens: 0 }
            return { sessionId: id, before: nothing, after: nothing }
          }
          const opened = yield* RunStart.openWithoutPrompt(id, input)
          const before = ContextFit.measureSize(opened.run.conversation)
          const { recorder } = opened.run
          const states = ["open", "answered"] as const
          const waiting = yield* services.store.listQuestions({ sessionId: id, states, limit: 1 })
          // A summary would close the calls that wait.
          if (waiting.length > 0) return { sessionId: id, before, after: before }
          yield* ContextFit.compactOnDemand(opened.run, { focus, keepExchanges }).pipe(
            Effect.provideService(RunRecorder, recorder),
            Effect.ensuring(recorder?.flush ?? Effect.void)
          )
          const sessionId =
            (yield* Effect.uninterruptible(
              sessions.continueInNewSession(opened, input, session.endReason ?? "compacted")
            )) ?? id
          return {
            sessionId,
            before,
            after: sessionId === id ? before : ContextFit.measureSize(opened.run.conversation)
          }
        })
      )

    const reviews = Option.getOrUndefined(yield* Effect.serviceOption(BackgroundReview.BackgroundReviews))
    const surroundings = yield* Effect.context<never>()
    const tenants = Option.getOrUndefined(yield* Effect.serviceOption(Tenancy.Tenants))

    /** Starts the due reviews of a run whose result was delivered. */
    const startDueReviews = (
      { cwd, run }: RunStart.OpenedRun,
      { source }: RunOptions,
      finished: RunResult
    ): Effect.Effect<void, never, Services> =>
      reviews === undefined || settings.reviews === undefined || source === "cron" || source === "batch"
        ? Effect.void
        : Effect.flatMap(
            Effect.promise(() => import("./ReviewRun.ts")),
            ({ reviewAfterRun }) =>
              reviewAfterRun(reviews, { run, cwd, sessionId: finished.sessionId }, finished, surroundings)
          )

    /** Passes the result of a run on to its reader, to the memory and to the reviews. */
    const deliverResult = (
      opened: RunStart.OpenedRun,
      input: RunOptions,
      finished: RunResult,
      restore: <A, Failure, R>(effect: Effect.Effect<A, Failure, R>) => Effect.Effect<A, Failure, R>
    ): Effect.Effect<void, never, Services> => {
      const { run } = opened
      const shown = run.emit === undefined ? Effect.void : restore(emit(run, finished))
      const told = Effect.flatMapEager(shown, () => memories.tell(run, input, finished))
      return reviews === undefined
        ? told
        : Effect.andThen(told, memories.listening(run, input, startDueReviews(opened, input, finished)))
    }

    const startRun = (
      given: StartOptions,
      lineage: Lineage | undefined,
      name: AgentSpans.Name = "run",
      resumed?: Resumption.Answers
    ): Effect.Effect<RunResult, AgentError | QuestionError | MiddlewareFailure> => {
      const own = selectServices(lineage)
      const conducted = Effect.scoped(
        Effect.gen(function* () {
          if (resumed !== undefined && given.sessionId !== undefined) yield* sessions.requireOwn(given.sessionId)
          const { id, stopped } = yield* sessions.acquireSession(given.sessionId)
          const asked =
            resumed === undefined
              ? given
              : { ...given, prompt: yield* Resumption.takeAnswers(services.store, id, resumed) }
          const isContinued = lineage === undefined && asked.goesOn === true && asked.openCalls === "run"
          const conditions = isContinued ? yield* RunConditions.readConditions(services.store, id) : []
          const input = conditions.reduceRight(
            (options, one) => RunConditions.narrowOptions(options, services.settings, one),
            asked
          )
          const prepared = yield* RunStart.prepare(id, input, lineage)
          const conductRun = (opened: RunStart.OpenedRun) =>
            // A child's session is closed when the child ends.
            Effect.andThen(
              lineage === undefined ? sessions.keepOpen(id, opened.run.turnId) : Effect.void,
              memories.listening(
                opened.run,
                input,
                RunConditions.limitMode(
                  RunConduct.conduct(opened, input, stopped, { run: startRun, stop: sessions.stop }),
                  conditions
                )
              )
            )
          const { run } = prepared.opened
          const { output } = run
          return yield* Effect.uninterruptibleMask((restore) =>
            // A run that fails before its message is stored also reports its end.
            Effect.flatMap(
              RunStart.begin(prepared, restore).pipe(
                Effect.flatMap((opened) => restore(conductRun(opened))),
                Effect.mapError(RunEnd.nameMissingPackage),
                Effect.exit
              ),
              (exit) => {
                const ended = RunLifecycle.end(run, exit)
                return output === undefined
                  ? ended
                  : Effect.flatMap(ended, (result) => restore(output.attachValue(run, result)))
              }
            ).pipe(
              Effect.onExit(RunEnd.announceEnd(run)),
              Effect.onExit(RunEnd.closeRecord(run)),
              Effect.provideService(RunRecorder, run.recorder),
              Effect.exit,
              Effect.flatMap((exit) => {
                noteEnd(run)
                return Effect.flatMapEager(
                  sessions.continueInNewSession(prepared.opened, input, RunEnd.getEndReason(exit)),
                  (next) =>
                    Effect.mapEager(exit, (end) =>
                      addRunDetails(run, next === undefined ? end : Continuation.moveResult(end, next))
                    )
                )
              }),
              Effect.tap((finished) => deliverResult(prepared.opened, input, finished, restore))
            )
          )
        })
      )
      const bounded = Tenancy.boundRun(tenants, given, own, conducted)
      return AgentSpans.traceRun(own, name, given, lineage, bounded)
    }

    /**
     * Provides an effect with the services that the middleware requires and that the application passes to this run
     * or call.
     */
    const provideSurroundings = <A, Failure>(
      effect: Effect.Effect<A, Failure>,
      own: Context.Context<never> | undefined
    ) => Effect.updateContext(effect, (given: Context.Context<never>) => joinServices(given, own))

    const runAs =
      (name: AgentSpans.Name) =>
      ({ context, ...input }: StartOptions & RunContext.ContextInput<never>) =>
        provideSurroundings(startRun(input, undefined, name), context)
    const run = runAs("run")
    const runStreamed = runAs("stream")

    const resumeAs =
      (name: AgentSpans.Name) =>
      ({ answers, audience, context, ...input }: ResumeOptions & RunContext.ContextInput<never>) =>
        provideSurroundings(
          // The stored prompt replaces this one.
          startRun({ ...input, prompt: "", goesOn: true, openCalls: "run" }, undefined, name, { answers, audience }),
          context
        )
    const resume = resumeAs("resume")
    const resumeStreamed = resumeAs("resumeStream")

    /** Returns the events of a run, which starts with the reader. */
    const streamEvents = <Input extends Pick<RunOptions, "onEvent" | "streaming">, E>(
      start: (input: Input) => Effect.Effect<RunResult, E>,
      input: Input
    ) =>
      Stream.unwrap(
        Effect.gen(function* () {
          const { close, end, offer, stream } = EventHandoff.make<RunEvent, E>(streamBuffer)
          yield* start({ ...input, streaming: input.streaming ?? true, onEvent: offer }).pipe(
            Effect.exit,
            Effect.flatMap(end),
            Effect.forkScoped({ startImmediately: true })
          )
          // Runs before the fork is interrupted, so that a run that is being closed never waits for a reader that
          // left.
          yield* Effect.addFinalizer(() => close)
          return stream
        })
      )

    const stream = (input: StartOptions & RunContext.ContextInput<never>) => streamEvents(runStreamed, input)
    const resumeStream = (input: ResumeOptions & RunContext.ContextInput<never>) => streamEvents(resumeStreamed, input)
    const listOpenQuestions: Service["questions"] = (sessionId) =>
      Resumption.listQuestions(services.store, Ids.SessionId.make(sessionId))

    const callBounded = (tenant: string | undefined, call: Parameters<typeof CallTool.callTool>[0]) =>
      CallTool.refuseOnFailure(
        Tenancy.boundSessionOperation(tenants, { tenant, sessionId: call.sessionId }, services, CallTool.callTool(call))
      )

    const callTool: Service["callTool"] = ({ context, tenant, ...call }) =>
      provideSurroundings(
        AgentSpans.traceOperation(services, "callTool", callBounded(tenant, call), {
          "gen_ai.conversation.id": call.sessionId,
          "gen_ai.tool.name": call.name
        }),
        context
      )

    const compactIn: Service["compact"] = ({ context, ...input }) =>
      provideSurroundings(
        AgentSpans.traceOperation(
          services,
          "compact",
          Tenancy.boundSessionOperation(tenants, input, services, compact(input)),
          { "gen_ai.conversation.id": input.sessionId }
        ),
        context
      )

    const promptLayers: Service["promptLayers"] = (input = {}) =>
      AgentSpans.traceOperation(
        services,
        "promptLayers",
        Tenancy.boundOperation(
          tenants,
          undefined,
          Tenancy.provideServices(services, SessionOpening.buildPromptLayers(input))
        )
      )

    const { deleteSession, finalize, stop } = sessions
    const service = {
      run,
      stream,
      resume,
      resumeStream,
      questions: listOpenQuestions,
      stop,
      callTool,
      compact: compactIn,
      promptLayers,
      finalize,
      deleteSession
    }
    // The schema of a run names its value.
    return service as Service<unknown>
  })
