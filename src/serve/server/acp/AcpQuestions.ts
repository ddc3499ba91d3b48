/**
 * Sends the agent's questions to an ACP client: approvals and plans as permission requests, clarifications as forms.
 *
 * **Details**
 *
 * A client without forms shows the choices of a clarification as a permission request. If the client cannot show a
 * question or does not answer it, the answer is empty, so that no turn hangs. An empty answer to an approval is a
 * denial; a question of another process stays open there. If a question is closed elsewhere, its request is cancelled.
 * Hidden characters are marked in all shown questions, and an answer contains the original choice.
 *
 * Source: Agent Client Protocol, `session/request_permission` and elicitation.
 */
import type { PermissionOption, ToolCallContent } from "@agentclientprotocol/sdk/unstable"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import type * as Scope from "effect/Scope"
import * as FileChange from "../../../base/domain/FileChange.ts"
import * as VisibleText from "../../../base/domain/VisibleText.ts"
import { type OpenQuestion, planModes } from "../../host/HostEvent.ts"
import type { LiveSession } from "../../host/LiveSession.ts"
import { nameTarget, showLine } from "../../../tools/approval/ApprovalRequest.ts"
import type { SessionClient } from "./AcpClient.ts"
import { modeNames } from "./AcpSettings.ts"
import * as AcpContent from "./AcpContent.ts"

/** Operations on the questions of one session. */
export interface AcpQuestions {
  /** Asks the client in the background. */
  readonly ask: (question: OpenQuestion) => Effect.Effect<void>
  /** Cancels the request of a question that was answered elsewhere or withdrawn with its turn. */
  readonly withdraw: (id: OpenQuestion["id"]) => Effect.Effect<void>
  /** Removes an answered question without cancelling its request, because the answer may come from that request. */
  readonly forget: (id: OpenQuestion["id"]) => void
}

type QuestionContent<Kind extends OpenQuestion["_tag"]> = Extract<OpenQuestion, { readonly _tag: Kind }>["question"]

const labels = {
  once: ["Allow once", "allow_once"],
  session: ["Allow for this session", "allow_always"],
  always: ["Always allow", "allow_always"],
  deny: ["Deny", "reject_once"]
} as const

/** Returns the options of an approval. The label of a lasting option names its targets, or the rules that it adds. */
const listOffers = ({
  choices,
  command,
  prefix,
  rules,
  targets
}: QuestionContent<"Approval">): ReadonlyArray<PermissionOption> =>
  choices.flatMap((choice): ReadonlyArray<PermissionOption> => {
    const [label, kind] = labels[choice]
    if (choice !== "session" && choice !== "always") return [{ optionId: choice, name: label, kind }]
    const nameOffer = (named: string, written: ReadonlyArray<string> | undefined): string => {
      const held = choice === "always" && written !== undefined ? written.map(showLine).join(", ") : named
      return held === "" ? label : `${label}: ${held}`
    }
    const named = targets.map((target) => nameTarget(target, command)).join(", ")
    return [
      { optionId: choice, name: nameOffer(named, rules?.exact), kind },
      ...(prefix === undefined
        ? []
        : [
            {
              optionId: `${choice}:prefix`,
              name: nameOffer(`commands that begin with ${showLine(prefix.text)}`, rules?.prefix),
              kind
            }
          ])
    ]
  })

/** Converts the option that the client chose to a reply. An option that was not offered counts as a denial. */
const toReply = (question: QuestionContent<"Approval">, option: string | undefined) => {
  const offered = listOffers(question).find(({ optionId }) => optionId === option)
  const [choice, prefix] = offered?.optionId.split(":") ?? []
  const found = question.choices.find((one) => one === choice)
  return found === undefined
    ? { choice: "deny" as const }
    : { choice: found, ...(prefix === undefined ? {} : { prefix: true }) }
}

const renderPreview = ({ command, description, preview }: QuestionContent<"Approval">): Array<ToolCallContent> => [
  // A script is hard to read in a one-line title, so it is shown as content.
  ...(command.includes("\n") ? [{ type: "content" as const, content: { type: "text" as const, text: command } }] : []),
  { type: "content", content: { type: "text", text: description } },
  ...(preview === undefined
    ? []
    : AcpContent.parseDifferences({ diff: preview, path: FileChange.readFileName({ diff: preview, path: "" }) }).map(
        ({ content }) => content
      ))
]

/** Makes the form of a clarification: its choices, and a field for free text. */
const buildForm = (choices: ReadonlyArray<string>, multiple: boolean) => ({
  type: "object",
  properties: {
    ...(choices.length === 0
      ? {}
      : {
          choice: multiple
            ? { type: "array", title: "Answers", items: { type: "string", enum: choices } }
            : { type: "string", title: "Answer", enum: choices }
        }),
    words: { type: "string", title: choices.length === 0 ? "Answer" : "Another answer" }
  }
})

/** Reads the answers of a form: choices as the agent offered them, and the user's free text. */
const readAnswers = (
  content: Readonly<Record<string, unknown>> | undefined,
  choices: ReadonlyArray<string>
): ReadonlyArray<string> =>
  [
    ...[content?.["choice"]].flat().map((shown) => choices.find((one) => VisibleText.showLine(one) === shown) ?? shown),
    content?.["words"]
  ].filter((one): one is string => typeof one === "string" && one.trim() !== "")

/** The session that asks questions, and the client that shows them. */
interface QuestionContext {
  readonly live: LiveSession
  readonly client: SessionClient
}

const requestApproval = Effect.fnUntraced(function* (
  { client, live }: QuestionContext,
  id: string,
  question: QuestionContent<"Approval">
) {
  const option = yield* client.permission({
    toolCall: {
      toolCallId: question.tool_call_id ?? id,
      title: showLine(question.command),
      kind: AcpContent.classifyTool(question.tool),
      status: "pending",
      content: renderPreview(question)
    },
    options: [...listOffers(question)]
  })
  if (option === undefined && live.isRemoteQuestion(id)) return
  yield* live.answer(id, { _tag: "Approval", reply: toReply(question, option) })
})

const requestClarification = Effect.fnUntraced(function* (
  { client, live }: QuestionContext,
  id: string,
  { choices, multiple, question }: QuestionContent<"Clarification">
) {
  if (client.capabilities.elicitation?.form != null) {
    const content = yield* client.elicit(
      VisibleText.showLines(question),
      buildForm(choices.map(VisibleText.showLine), multiple)
    )
    if (content === undefined && live.isRemoteQuestion(id)) return
    return yield* live.answer(id, { _tag: "Clarification", answers: readAnswers(content, choices) })
  }
  const chosen =
    choices.length === 0 || multiple
      ? undefined
      : yield* client.permission({
          toolCall: { toolCallId: id, title: VisibleText.showLines(question), kind: "think", status: "pending" },
          options: [
            ...choices.map((choice, index): PermissionOption => ({
              optionId: `${index}`,
              name: VisibleText.showLine(choice),
              kind: "allow_once"
            })),
            { optionId: "none", name: "No answer", kind: "reject_once" }
          ]
        })
  if (chosen === undefined && live.isRemoteQuestion(id)) return
  const answer = choices.find((_, index) => `${index}` === chosen)
  yield* live.answer(id, { _tag: "Clarification", answers: answer === undefined ? [] : [answer] })
})

const requestPlanDecision = Effect.fnUntraced(function* (
  { client, live }: QuestionContext,
  id: string,
  { modes, plan }: QuestionContent<"Plan">
) {
  const text = VisibleText.showLines(plan.replaceAll("\r\n", "\n"))
  const option = yield* client.permission({
    toolCall: {
      toolCallId: id,
      title: "Carry out this plan?",
      kind: "switch_mode",
      status: "pending",
      content: [{ type: "content", content: { type: "text", text } }]
    },
    options: [
      ...modes.map((mode): PermissionOption => ({
        optionId: mode,
        name: `Approve, go on in the mode ${modeNames[mode][0]}`,
        kind: "allow_once"
      })),
      { optionId: "plan", name: "Keep planning", kind: "reject_once" }
    ]
  })
  yield* live.answer(id, { _tag: "Plan", mode: planModes.find((mode) => mode === option) ?? "plan" })
})

const handleQuestion = (context: QuestionContext, asked: OpenQuestion) => {
  switch (asked._tag) {
    case "Approval":
      return requestApproval(context, asked.id, asked.question)
    case "Clarification":
      return requestClarification(context, asked.id, asked.question)
    case "Plan":
      return requestPlanDecision(context, asked.id, asked.question)
  }
}

/** Makes the operations on the questions of a session. Open questions are withdrawn when the scope closes. */
export const make = Effect.fnUntraced(function* (
  live: LiveSession,
  client: SessionClient
): Effect.fn.Return<AcpQuestions, never, Scope.Scope> {
  const scope = yield* Effect.scope
  const asking = new Map<OpenQuestion["id"], Fiber.Fiber<unknown, unknown>>()
  return {
    ask: (asked) =>
      // The question was answered elsewhere or withdrawn with its turn.
      Effect.map(
        Effect.forkIn(
          Effect.catch(handleQuestion({ live, client }, asked), () => Effect.void),
          scope
        ),
        (fiber) => void asking.set(asked.id, fiber)
      ),
    withdraw: (id) =>
      Effect.suspend(() => {
        const fiber = asking.get(id)
        asking.delete(id)
        return fiber === undefined ? Effect.void : Effect.asVoid(Effect.forkIn(Fiber.interrupt(fiber), scope))
      }),
    forget: (id) => void asking.delete(id)
  }
})
