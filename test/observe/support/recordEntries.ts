// Entries of a run record by hand, in the order in which a test tells of them, and the events that a stream makes of
// them. They are written by the recorder of real runs.
import * as Effect from "effect/Effect"
import * as Prompt from "effect/ai/Prompt"
import { SessionId, TurnId } from "../../../src/base/domain/Ids.ts"
import type { Entry, RecordEvent } from "../../../src/base/domain/RecordEvent.ts"
import * as RunRecorder from "../../../src/base/domain/RunRecorder.ts"
import { type Usage, zero } from "../../../src/base/domain/Usage.ts"
import type { Event } from "../../../src/observe/Atof.ts"
import type { Agent } from "../../../src/observe/atof/AgentScopes.ts"
import * as FromRuns from "../../../src/observe/atof/FromRuns.ts"

/** A call of an answer. */
export interface Called {
  readonly id: string
  readonly name: string
  readonly args?: unknown
}

/** What a model call was and what came of it: an answer, or a failure. */
export interface Asked {
  readonly text?: string
  readonly reasoning?: string
  readonly calls?: ReadonlyArray<Called>
  readonly usage?: Partial<Usage>
  readonly usd?: number | null
  readonly failure?: { readonly type: string; readonly message: string; readonly reason: string }
  readonly attempt?: number
  readonly model?: string
  readonly provider?: string
  readonly parameters?: Readonly<Record<string, unknown>>
}

interface Writer {
  readonly recorder: RunRecorder.Recorder
  readonly messages: Array<Prompt.Message>
  steps: number
}

const none = { steps: 1, usage: zero, cost: { usd: null, status: "unknown", source: "none" } } as const

/** The runs of some sessions, one each. */
export const make = (agent: Agent) => {
  const entries: Array<Entry> = []
  const events: Array<Event> = []
  const stream = FromRuns.make(agent)
  const writers = new Map<string, Writer>()
  let now = 1_780_000_000_000

  const flush = ({ recorder }: Writer): void => Effect.runSync(recorder.flush)
  const writerOf = (session: string): Writer => {
    const known = writers.get(session)
    if (known !== undefined) return known
    const recorder = RunRecorder.make({
      sessionId: SessionId.make(session),
      turnId: TurnId.make(`${session}:t`),
      history: [],
      now: () => now++,
      hash: (text) => text,
      sink: (written) =>
        Effect.sync(() => {
          entries.push(...written)
          for (const entry of written) events.push(...stream.add(entry))
        })
    })
    const writer: Writer = { recorder, messages: [], steps: 0 }
    writers.set(session, writer)
    return writer
  }
  const write = (session: string, ...written: ReadonlyArray<RecordEvent>): void => {
    const writer = writerOf(session)
    for (const event of written) writer.recorder.write(event)
    flush(writer)
  }
  const append = (session: string, origin: "child" | "model" | "tool" | "user", message: Prompt.Message): void => {
    const writer = writerOf(session)
    writer.recorder.appended(origin, writer.messages.length, [message])
    writer.messages.push(message)
    flush(writer)
  }

  return {
    entries,
    events,
    write,
    say: (session: string, text: string) =>
      append(session, "user", Prompt.userMessage({ content: [Prompt.textPart({ text })] })),
    begin: (
      session: string,
      prompt: string,
      parent?: { readonly session: string; readonly callId: string; readonly subagentId: string }
    ) => {
      write(session, {
        _tag: "RunStarted",
        version: 1,
        source: "library",
        platform: "library",
        provider: "p",
        model: "m",
        cwd: "/",
        resumed: false,
        ...(parent === undefined
          ? {}
          : {
              parent: {
                sessionId: SessionId.make(parent.session),
                turnId: TurnId.make(`${parent.session}:t`),
                callId: parent.callId,
                subagentId: parent.subagentId,
                goal: prompt,
                depth: 1
              }
            })
      })
      append(session, "user", Prompt.userMessage({ content: [Prompt.textPart({ text: prompt })] }))
    },
    ask: (
      session: string,
      {
        attempt = 0,
        calls = [],
        failure,
        model = "m",
        parameters = {},
        provider = "p",
        reasoning,
        text = "",
        usage,
        usd
      }: Asked
    ) => {
      const writer = writerOf(session)
      const step = attempt > 0 ? writer.steps : ++writer.steps
      const apiRequestId = `${session}:${step}:${attempt}`
      const messages = writer.recorder.references(writer.messages)
      write(
        session,
        {
          _tag: "AttemptStarted",
          apiRequestId,
          step,
          attempt,
          route: { provider, model, apiMode: "chat_completions" },
          messages,
          parameters
        },
        {
          _tag: "AttemptEnded",
          apiRequestId,
          model,
          status: failure === undefined ? "answered" : "failed",
          answer:
            failure !== undefined
              ? []
              : [
                  ...(reasoning === undefined ? [] : [{ type: "reasoning" as const, text: reasoning }]),
                  ...(text === "" ? [] : [{ type: "text" as const, text }]),
                  ...calls.map(({ args = {}, id, name }) => ({ type: "tool-call" as const, id, name, params: args }))
                ],
          ...(usage === undefined ? {} : { usage: { ...zero, ...usage } }),
          ...(usd === undefined
            ? {}
            : {
                cost: {
                  usd,
                  status: usd === null ? ("unknown" as const) : ("estimated" as const),
                  source: "none" as const
                }
              }),
          ...(failure === undefined ? {} : { failure })
        }
      )
      if (failure !== undefined) return
      append(
        session,
        "model",
        Prompt.assistantMessage({
          content: [
            ...(reasoning === undefined ? [] : [Prompt.reasoningPart({ text: reasoning })]),
            ...(text === "" ? [] : [Prompt.textPart({ text })]),
            ...calls.map(({ args = {}, id, name }) =>
              Prompt.toolCallPart({ id, name, params: args, providerExecuted: false })
            )
          ]
        })
      )
    },
    call: (session: string, { args = {}, id, name }: Called) =>
      write(session, { _tag: "CallStarted", callId: id, name, args, apiRequestId: `${session}:1:0`, parallel: false }),
    result: (
      session: string,
      { id, name }: Called,
      result: unknown,
      status: "blocked" | "error" | "ok" = "ok",
      reason?: string
    ) => {
      append(
        session,
        "tool",
        Prompt.toolMessage({
          content: [Prompt.toolResultPart({ id, name, result, isFailure: status !== "ok", providerExecuted: false })]
        })
      )
      write(session, {
        _tag: "CallEnded",
        callId: id,
        name,
        status,
        ran: status !== "blocked",
        durationMillis: 1,
        ...(reason === undefined ? {} : { reason })
      })
    },
    approve: (session: string, callId: string, subject: string, choice: string) =>
      write(session, { _tag: "ApprovalDecided", callId, subject, choice, waitedMillis: 1 }),
    child: (
      session: string,
      callId: string,
      child: { readonly session: string; readonly subagentId: string; readonly goal: string }
    ) =>
      write(session, {
        _tag: "ChildStarted",
        callId,
        subagentId: child.subagentId,
        sessionId: SessionId.make(child.session),
        goal: child.goal,
        role: "leaf",
        background: false
      }),
    childEnded: (
      session: string,
      child: { readonly session: string; readonly subagentId: string },
      status = "completed"
    ) =>
      write(session, {
        _tag: "ChildEnded",
        subagentId: child.subagentId,
        sessionId: SessionId.make(child.session),
        status,
        durationMillis: 5
      }),
    end: (session: string) => write(session, { _tag: "RunEnded", exit: "text_response", ...none }),
    giveUp: (session: string) => write(session, { _tag: "SessionEnded", reason: "shutdown" }),
    /** Ends the stream. */
    close: () => void events.push(...stream.close())
  }
}
