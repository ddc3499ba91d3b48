// Questions about calls as terminals, editors and readers over HTTP show them: whole, and with the rules that an answer
// would write.
import type { RequestPermissionRequest } from "@agentclientprotocol/sdk/unstable"
import { assert, describe, it } from "@effect/vitest"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as ApprovalQuestion from "../../../src/program/cli/interactive/ApprovalQuestion.ts"
import { SessionId, ToolCallId, TurnId } from "../../../src/base/domain/Ids.ts"
import type { OpenQuestion } from "../../../src/serve/host/HostEvent.ts"
import type { LiveSession } from "../../../src/serve/host/LiveSession.ts"
import type { SessionClient } from "../../../src/serve/server/acp/AcpClient.ts"
import * as AcpQuestions from "../../../src/serve/server/acp/AcpQuestions.ts"
import * as EventFeed from "../../../src/serve/server/agent/EventFeed.ts"
import type { Question } from "../../../src/tools/approval/ApprovalRequest.ts"

const long = `echo ${"a".repeat(3_000)}\nrm -rf build`

const question: Question = {
  session_id: SessionId.make("s1"),
  turn_id: TurnId.make("t1"),
  tool_call_id: ToolCallId.make("c1"),
  tool: "terminal",
  command: long,
  description: "recursive delete",
  keys: ["recursive delete"],
  targets: [{ kind: "command", text: `${long} (in /srv/\u202Eapp)` }],
  prefix: undefined,
  rules: { file: "config.yaml", exact: ["terminal(echo  \u200Bx)"] },
  choices: ["once", "session", "always", "deny"]
}

const asked: OpenQuestion = { _tag: "Approval", id: "q1", turn: 1, askedAt: 0, question }

/**
 * Asks an editor, which answers with an option, or with the content of a form where it has forms. Returns the request
 * (of a form: its message as the title, and its schema) and the answer that the session gets.
 */
const askEditor = (given: OpenQuestion, reply: string | Readonly<Record<string, unknown>>) =>
  Effect.scoped(
    Effect.gen(function* () {
      const got = yield* Deferred.make<Omit<RequestPermissionRequest, "sessionId">>()
      const answered = yield* Deferred.make<unknown>()
      const client: SessionClient = {
        capabilities: typeof reply === "string" ? {} : { elicitation: { form: {} } },
        update: () => Effect.void,
        permission: (request) =>
          Effect.as(Deferred.succeed(got, request), typeof reply === "string" ? reply : undefined),
        elicit: (title, rawInput) =>
          Effect.as(
            Deferred.succeed(got, { toolCall: { toolCallId: "form", title, rawInput }, options: [] }),
            typeof reply === "string" ? undefined : reply
          )
      }
      // Nothing else of a session is used by its questions.
      const live = {
        answer: (_: string, answer: unknown) => Deferred.succeed(answered, answer)
      } as unknown as LiveSession
      const questions = yield* AcpQuestions.make(live, client)
      yield* questions.ask(given)
      return { request: yield* Deferred.await(got), answer: yield* Deferred.await(answered) }
    })
  )

describe("a question about a call", () => {
  it("has labels at a terminal that name all that the command does not say, and the rule that is written", () => {
    const { choices, question: text } = ApprovalQuestion.toApprovalText(question)
    assert.include(text, long)
    // The question shows a command of several lines whole.
    assert.strictEqual(choices[1], "Allow this command (in /srv/\\u{202E}app) for this session")
    assert.strictEqual(choices[2], "Allow from now on: terminal(echo  \\u{200B}x) (permissions.allow in config.yaml)")
  })

  it("names a long path whole", () => {
    const path = `/srv/${"a".repeat(100)}/index.html`
    const { choices } = ApprovalQuestion.toApprovalText({
      ...question,
      command: "write_file {}",
      targets: [{ kind: "path", text: path }]
    })
    assert.strictEqual(choices[1], `Allow writing ${path} for this session`)
  })

  it.effect("is whole in an editor, with the rule that is written", () =>
    Effect.gen(function* () {
      const { options, toolCall } = (yield* askEditor(asked, "deny")).request
      assert.strictEqual(toolCall.title, long.replace("\n", "\\u{A}"))
      assert.deepStrictEqual(toolCall.content?.[0], { type: "content", content: { type: "text", text: long } })
      assert.include(options[1]?.name, " (in /srv/\\u{202E}app)")
      assert.strictEqual(options[2]?.name, "Always allow: terminal(echo  \\u{200B}x)")
    })
  )

  it("is whole over HTTP, with what an answer that lasts would hold for", () => {
    const [event] = EventFeed.toFeedEvents({ _tag: "QuestionAsked", question: asked })
    assert.deepInclude(event, { command: long, targets: question.targets, rules: question.rules?.exact })
  })

  it.effect("marks hidden characters of a plan in an editor", () =>
    Effect.gen(function* () {
      const { request } = yield* askEditor(
        { _tag: "Plan", id: "q2", turn: 1, askedAt: 0, question: { plan: "1. Look\r\n2. Go\u202E", modes: ["edits"] } },
        "edits"
      )
      assert.deepStrictEqual(request.toolCall.content?.[0], {
        type: "content",
        content: { type: "text", text: "1. Look\n2. Go\\u{202E}" }
      })
    })
  )

  it.effect("marks hidden characters of a clarification in an editor, and answers with the choice itself", () =>
    Effect.gen(function* () {
      const clarification: OpenQuestion = {
        _tag: "Clarification",
        id: "q3",
        turn: 1,
        askedAt: 0,
        question: { question: "Which\u202E?", choices: ["a", "b\u200B"], multiple: false }
      }
      const asPermission = yield* askEditor(clarification, "1")
      assert.strictEqual(asPermission.request.toolCall.title, "Which\\u{202E}?")
      assert.deepStrictEqual(
        asPermission.request.options.map(({ name }) => name),
        ["a", "b\\u{200B}", "No answer"]
      )
      assert.deepStrictEqual(asPermission.answer, { _tag: "Clarification", answers: ["b\u200B"] })
      const asForm = yield* askEditor(clarification, { choice: "b\\u{200B}", words: "my\u200B own" })
      assert.strictEqual(asForm.request.toolCall.title, "Which\\u{202E}?")
      assert.include(JSON.stringify(asForm.request.toolCall.rawInput), "b\\\\u{200B}")
      assert.deepStrictEqual(asForm.answer, { _tag: "Clarification", answers: ["b\u200B", "my\u200B own"] })
    })
  )
})
