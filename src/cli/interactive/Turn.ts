/**
 * One turn: a prompt goes to the agent, and what it does is shown until it is done or stopped.
 *
 * Source: `hermes-product.md` §1.8.
 */
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Stream from "effect/Stream"
import * as Budget from "../../agent/Budget.ts"
import type { RunInput } from "../../agent/RunInput.ts"
import type { RunResult } from "../../domain/RunEvent.ts"
import { ApprovalPrompt } from "../../tool/approval/Approver.ts"
import { Clarifier } from "../../tool/builtin/clarify/Clarifier.ts"
import * as ErrorLine from "../ErrorLine.ts"
import * as EventPrinter from "../render/EventPrinter.ts"
import * as SafeText from "../render/SafeText.ts"
import * as ApprovalQuestion from "./ApprovalQuestion.ts"
import * as Dialog from "./Dialog.ts"
import * as SessionTitle from "./SessionTitle.ts"
import * as SessionSwitch from "./SessionSwitch.ts"
import * as BusyPrompt from "./BusyPrompt.ts"

/** Why an answer is not a whole one, and how to go on; undefined where there is nothing to say. */
export const ending = ({ exit, limit, steps }: Pick<RunResult, "exit" | "limit" | "steps">): string | undefined => {
  switch (exit) {
    case "text_response":
      return undefined
    case "interrupted_by_user":
      return "Stopped. The work so far is kept; type how to continue."
    case "budget_exhausted":
      return `Stopped, because ${Budget.wording(limit ?? "time").what} for the run is used up. Type "continue" to continue.`
    case "max_iterations_reached":
      return `Stopped after ${steps} model calls without a final answer. Type "continue" to continue.`
    case "output_truncated":
      return "The answer was cut off at the output limit. Type \"continue\" to continue."
    case "partial_stream_recovery":
      return "The connection was lost during the answer. Type \"continue\" to continue."
    case "empty_response_exhausted":
      return "The model returned an empty answer. Type /retry to try again."
    case "invalid_tool_calls":
      return "The model kept sending invalid tool calls. Type /retry to try again."
    case "content_filtered":
      return "The provider's content filter ended the answer. Rephrase the prompt."
    case "guardrail_halt":
      return "Stopped by a guardrail. Type how to continue."
  }
}

/** Gives the session the title that it was to have as soon as there is something of it. */
const entitle = Effect.fnUntraced(function*(dialog: Dialog.Dialog) {
  const { title } = dialog.current
  const session = title === undefined ? undefined : yield* SessionSwitch.known(dialog)
  if (title === undefined || session === undefined) return
  dialog.current = { ...dialog.current, title: undefined }
  yield* dialog.options.store.rename(session.id, title)
})

const textOf = (prompt: RunInput["prompt"]): string =>
  typeof prompt === "string" ? prompt : prompt.flatMap((part) => part.type === "text" ? [part.text] : []).join("\n")

/** Gives the exit code with which the program is left, if it is. */
export const run = Effect.fnUntraced(function*(
  dialog: Dialog.Dialog,
  prompt: RunInput["prompt"]
): Effect.fn.Return<number | undefined> {
  const { options, screen } = dialog
  const { display } = options
  const { cwd, id } = dialog.current
  const printer = EventPrinter.make(screen, {
    markdown: display.finalResponseMarkdown,
    showReasoning: display.showReasoning,
    showCost: display.showCost,
    verbosity: () => dialog.verbosity,
    previewLength: display.toolPreviewLength,
    live: !options.hooks.has("transform_llm_output"),
    hint: "Ctrl+C stops"
  })
  let result: RunResult | undefined
  dialog.current = { ...dialog.current, prompts: dialog.current.prompts + 1, lastPrompt: prompt }

  const conversation = options.agent.stream({
    streaming: display.streaming,
    ...options.input,
    prompt,
    sessionId: id,
    cwd
  }).pipe(
    Stream.runForEachArray((events) => {
      result = events.findLast((event) => event._tag === "RunFinished") ?? result
      return printer.events(events)
    }),
    Effect.provideService(Clarifier, dialog.questions.ask),
    Effect.provideService(ApprovalPrompt, ApprovalQuestion.prompt(dialog.questions.ask))
  )
  const before = dialog.note
  dialog.note = printer.note
  const stop = options.agent.stop(id)
  const working = BusyPrompt.during(dialog, {
    run: conversation,
    stop,
    steer: (text) => dialog.steering.add(id, text),
    view: printer.view
  })
  const worked = yield* dialog.injected.during(working, stop).pipe(Effect.ensuring(Effect.andThen(printer.close, Effect.sync(() => {
    dialog.note = before
    dialog.waiting.unshift(...dialog.steering.end())
  }))))
  if (worked._tag === "Leave") {
    Dialog.say(dialog, "")
    return worked.code
  }
  const said = result === undefined
    ? worked.stopped ? ending({ exit: "interrupted_by_user", steps: 0 }) : undefined
    : ending(result)
  if (said !== undefined) printer.note(screen.asidePaint.text(said, "yellow"))
  if (Exit.isFailure(worked.exit) && !worked.stopped) {
    const line = ErrorLine.render(ErrorLine.ofCause(worked.exit.cause).line)
    printer.note(screen.asidePaint.text(SafeText.line(line), "red"))
  }
  Dialog.say(dialog, "")
  if (result !== undefined) yield* SessionTitle.afterFirst(dialog, textOf(prompt), result)
  yield* Effect.catch(entitle(dialog), (error) => Effect.sync(() => Dialog.complain(dialog, error)))
  return undefined
})
