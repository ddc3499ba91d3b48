// Questions about calls as terminals, editors and readers over HTTP show them: whole, and with the rules that an answer would write.
import type { RequestPermissionRequest } from "@agentclientprotocol/sdk/unstable"
import { assert, describe, it } from "@effect/vitest"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as ApprovalQuestion from "../../src/cli/interactive/ApprovalQuestion.ts"
import { SessionId, ToolCallId, TurnId } from "../../src/domain/Ids.ts"
import type { OpenQuestion } from "../../src/host/HostEvent.ts"
import type { LiveSession } from "../../src/host/LiveSession.ts"
import type { SessionClient } from "../../src/server/acp/AcpClient.ts"
import * as AcpQuestions from "../../src/server/acp/AcpQuestions.ts"
import * as EventFeed from "../../src/server/agent/EventFeed.ts"
import type { Question } from "../../src/tool/approval/Question.ts"

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

/** The request for a permission that an editor gets. */
const permissionOf = (given: OpenQuestion) =>
  Effect.scoped(Effect.gen(function*() {
    const got = yield* Deferred.make<Omit<RequestPermissionRequest, "sessionId">>()
    const client: SessionClient = {
      capabilities: {},
      update: () => Effect.void,
      permission: (request) => Effect.as(Deferred.succeed(got, request), "deny"),
      elicit: () => Effect.undefined
    }
    // Nothing else of a session is used by its questions.
    const live = { answer: () => Effect.void } as unknown as LiveSession
    const questions = yield* AcpQuestions.make(live, client)
    yield* questions.ask(given)
    return yield* Deferred.await(got)
  }))

describe("a question about a call", () => {
  it("has labels at a terminal that name all that the command does not say, and the rule that is written", () => {
    const { choices, question: text } = ApprovalQuestion.textOf(question)
    assert.include(text, long)
    assert.match(choices[1] ?? "", /^Allow `echo a{50,60}… \(in \/srv\/\\u\{202E\}app\)` for this session$/)
    assert.strictEqual(choices[2], "Allow from now on: terminal(echo  \\u{200B}x) (permissions.allow in config.yaml)")
  })

  it("names a long path whole", () => {
    const path = `/srv/${"a".repeat(100)}/index.html`
    const { choices } = ApprovalQuestion.textOf({ ...question, command: "write_file {}", targets: [{ kind: "path", text: path }] })
    assert.strictEqual(choices[1], `Allow writing ${path} for this session`)
  })

  it.effect("is whole in an editor, with the rule that is written", () =>
    Effect.gen(function*() {
      const { options, toolCall } = yield* permissionOf(asked)
      assert.strictEqual(toolCall.title, long.replace("\n", "\\u{A}"))
      assert.deepStrictEqual(toolCall.content?.[0], { type: "content", content: { type: "text", text: long } })
      assert.include(options[1]?.name, " (in /srv/\\u{202E}app)")
      assert.strictEqual(options[2]?.name, "Always allow: terminal(echo  \\u{200B}x)")
    }))

  it("is whole over HTTP, with what an answer that lasts would hold for", () => {
    const [event] = EventFeed.eventsOf({ _tag: "QuestionAsked", question: asked })
    assert.deepInclude(event, { command: long, targets: question.targets, rules: question.rules?.exact })
  })
})
