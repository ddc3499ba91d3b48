// Approvals of a suspended run in the AI SDK: shown and answered by its own parts, as `useChat` does.
import {
  convertToModelMessages,
  generateText,
  isToolUIPart,
  lastAssistantMessageIsCompleteWithApprovalResponses,
  readUIMessageStream,
  streamText,
  type UIMessage
} from "ai"
import { assert, describe, it } from "vitest"
import * as z from "zod"
import { languageModel } from "../../../src/kit/entry/ai-sdk.ts"
import { createHermes, type Hermes, tool } from "../../../src/kit/entry/promise.ts"
import * as Scripted from "../../../src/models/provider/Scripted.ts"

Object.assign(globalThis, { AI_SDK_LOG_WARNINGS: false })

const makeWorld = (turns: ReadonlyArray<Scripted.Turn>) => {
  const deleted: Array<string> = []
  const remove = tool({
    name: "remove",
    description: "Removes a file",
    input: z.object({ path: z.string() }),
    needsApproval: true,
    execute: ({ path }) => {
      deleted.push(path)
      return `removed ${path}`
    }
  })
  const hermes: Hermes = createHermes({
    model: Scripted.layer(turns),
    tools: [remove],
    questions: { unanswered: "suspend" }
  })
  return { deleted, hermes }
}

const call = (path: string, id: string) => ({ name: "remove", params: { path }, id })
const user = (text: string): UIMessage => ({ id: text, role: "user", parts: [{ type: "text", text }] })

/** Sends the messages as the route of a chat does, and gives the message of the assistant as `useChat` has it. */
const sendChat = async (hermes: Hermes, messages: Array<UIMessage>, sessionId?: string): Promise<UIMessage> => {
  const result = streamText({
    model: languageModel(hermes),
    messages: await convertToModelMessages(messages),
    ...(sessionId === undefined ? {} : { providerOptions: { hermes: { sessionId } } })
  })
  const last = messages.at(-1)
  const stream = result.toUIMessageStream({
    originalMessages: messages,
    onError: (error) => (error instanceof Error ? error.message : String(error))
  })
  let shown: UIMessage | undefined
  for await (const message of readUIMessageStream({
    stream,
    terminateOnError: true,
    ...(last?.role === "assistant" ? { message: structuredClone(last) } : {})
  }))
    shown = message
  if (shown === undefined) throw new Error("no message")
  return shown
}

/** Answers the open approvals of a message as `addToolApprovalResponse` does. */
const answerAll = (message: UIMessage, approved: boolean, reason?: string): UIMessage => ({
  ...message,
  // A part with an answer is a part of the same tool in another state.
  parts: message.parts.map((part) =>
    isToolUIPart(part) && part.state === "approval-requested"
      ? {
          ...part,
          state: "approval-responded",
          approval: { id: part.approval.id, approved, ...(reason === undefined ? {} : { reason }) }
        }
      : part
  ) as UIMessage["parts"]
})

const states = ({ parts }: UIMessage) => parts.flatMap((part) => (isToolUIPart(part) ? [part.state] : []))
const textOf = ({ parts }: UIMessage) => parts.map((part) => (part.type === "text" ? part.text : "")).join("")

describe("an approval of a suspended run", () => {
  for (const sessionId of ["chat-1", undefined])
    it(`is shown and granted in a chat ${sessionId === undefined ? "without" : "with"} a session`, async () => {
      const { deleted, hermes } = makeWorld([
        Scripted.complete({ text: "I remove it.", toolCalls: [call("a.txt", "c1")] }),
        Scripted.complete("Removed."),
        Scripted.complete("You are welcome.")
      ])
      try {
        const asked = await sendChat(hermes, [user("Remove a.txt")], sessionId)
        assert.deepStrictEqual(states(asked), ["approval-requested"])
        assert.deepStrictEqual(deleted, [])
        const part = asked.parts.find(isToolUIPart)
        assert.deepInclude(part, { toolName: "remove", input: { path: "a.txt" }, toolCallId: "c1" })

        const granted = answerAll(asked, true)
        assert.isTrue(lastAssistantMessageIsCompleteWithApprovalResponses({ messages: [granted] }))
        const done = await sendChat(hermes, [user("Remove a.txt"), granted], sessionId)
        assert.deepStrictEqual(deleted, ["a.txt"])
        assert.include(textOf(done), "Removed.")
        assert.include(states(done), "output-available")
        assert.notInclude(states(done), "approval-requested")

        const thanks = await sendChat(hermes, [user("Remove a.txt"), done, user("Thanks.")], sessionId)
        assert.include(textOf(thanks), "You are welcome.")
        assert.deepStrictEqual(deleted, ["a.txt"])
        if (sessionId === undefined) return
        const roles = (await hermes.readSession(sessionId))?.map(({ role }) => role)
        assert.deepStrictEqual(roles, ["user", "assistant", "tool", "assistant", "user", "assistant"])
      } finally {
        await hermes.dispose()
      }
    })

  it("is denied with a reason, and its call does not run", async () => {
    const { deleted, hermes } = makeWorld([
      Scripted.complete({ toolCalls: [call("a.txt", "c1")] }),
      Scripted.complete("Then not."),
      Scripted.complete("You are welcome.")
    ])
    try {
      const asked = await sendChat(hermes, [user("Remove a.txt")], "chat")
      const done = await sendChat(hermes, [user("Remove a.txt"), answerAll(asked, false, "keep it")], "chat")
      assert.deepStrictEqual(deleted, [])
      assert.include(textOf(done), "Then not.")
      assert.include(JSON.stringify(await hermes.readSession("chat")), "keep it")
      assert.deepStrictEqual(states(done), ["output-denied"])
      const thanks = await sendChat(hermes, [user("Remove a.txt"), done, user("Thanks.")], "chat")
      assert.include(textOf(thanks), "You are welcome.")
      const roles = (await hermes.readSession("chat"))?.map(({ role }) => role)
      assert.deepStrictEqual(roles, ["user", "assistant", "tool", "assistant", "user", "assistant"])
    } finally {
      await hermes.dispose()
    }
  })

  it("follows another one: the answers of before are not given again", async () => {
    const { deleted, hermes } = makeWorld([
      Scripted.complete({ toolCalls: [call("a.txt", "c1")] }),
      Scripted.complete({ toolCalls: [call("b.txt", "c2"), call("c.txt", "c3")] }),
      Scripted.complete("All three.")
    ])
    try {
      const first = await sendChat(hermes, [user("Remove all")], "chat")
      const second = await sendChat(hermes, [user("Remove all"), answerAll(first, true)], "chat")
      assert.strictEqual(states(second).filter((state) => state === "approval-requested").length, 2)
      const third = await sendChat(hermes, [user("Remove all"), answerAll(second, true)], "chat")
      assert.deepStrictEqual(deleted, ["a.txt", "b.txt", "c.txt"])
      assert.include(textOf(third), "All three.")
    } finally {
      await hermes.dispose()
    }
  })

  it("without an answer is shown again behind the answers to the others", async () => {
    const { deleted, hermes } = makeWorld([
      Scripted.complete({ toolCalls: [call("a.txt", "c1"), call("b.txt", "c2")] }),
      Scripted.complete("Both.")
    ])
    try {
      const asked = await sendChat(hermes, [user("Remove both")], "chat")
      const one = { ...asked, parts: asked.parts.slice(0, asked.parts.findIndex(isToolUIPart) + 1) }
      const half = {
        ...answerAll(one, true),
        parts: [...answerAll(one, true).parts, ...asked.parts.slice(one.parts.length)]
      }
      const again = await sendChat(hermes, [user("Remove both"), half], "chat")
      assert.deepStrictEqual(deleted, ["a.txt"])
      assert.include(states(again), "approval-requested")
      const done = await sendChat(hermes, [user("Remove both"), answerAll(again, true)], "chat")
      assert.deepStrictEqual(deleted, ["a.txt", "b.txt"])
      assert.include(textOf(done), "Both.")
    } finally {
      await hermes.dispose()
    }
  })

  it("is answered once, and only in the session that the call names", async () => {
    const { deleted, hermes } = makeWorld([
      Scripted.complete({ toolCalls: [call("a.txt", "c1")] }),
      Scripted.complete("Removed.")
    ])
    try {
      const asked = await sendChat(hermes, [user("Remove a.txt")], "mine")
      const messages = [user("Remove a.txt"), answerAll(asked, true)]
      const fail = (sessionId: string) =>
        sendChat(hermes, messages, sessionId).then(
          () => "",
          (error: unknown) => String(error)
        )
      assert.include(await fail("yours"), "is not one of the session")
      assert.deepStrictEqual(deleted, [])
      await sendChat(hermes, messages, "mine")
      assert.include(await fail("mine"), "was answered before")
      assert.deepStrictEqual(deleted, ["a.txt"])
    } finally {
      await hermes.dispose()
    }
  })

  it("is a part of a generated answer, whose finish names the questions", async () => {
    const { hermes } = makeWorld([Scripted.complete({ toolCalls: [call("a.txt", "c1")] })])
    try {
      const result = await generateText({ model: languageModel(hermes), prompt: "Remove a.txt" })
      assert.strictEqual(result.finishReason, "tool-calls")
      assert.deepStrictEqual(
        result.content.map(({ type }) => type),
        ["tool-call", "tool-approval-request"]
      )
      const questions = result.providerMetadata?.["hermes"]?.["questions"]
      assert.deepInclude(Array.isArray(questions) ? questions[0] : undefined, { kind: "approval", tool: "remove" })
    } finally {
      await hermes.dispose()
    }
  })
})
