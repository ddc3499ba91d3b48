// The page of an application that chats with an agent: messages, approvals, and a field for the next message.
// @ts-nocheck: the packages of this page are only installed for the tests of this folder.
import { useChat } from "@ai-sdk/react"
import { DefaultChatTransport, lastAssistantMessageIsCompleteWithApprovalResponses } from "ai"
import { createElement as element, useState } from "react"
import { createRoot } from "react-dom/client"

const Call = ({ answer, part }) => {
  const { approval, input, output, errorText, state, toolCallId, toolName } = part
  const choose = (approved) => () => answer({ id: approval.id, approved, ...(approved ? {} : { reason: "keep it" }) })
  return element(
    "section",
    { "data-call": toolCallId, "data-state": state },
    `${toolName} ${JSON.stringify(input)} ${JSON.stringify(output ?? errorText ?? null)}`,
    ...(state === "approval-requested"
      ? [
          element("button", { key: "yes", onClick: choose(true) }, "Approve"),
          element("button", { key: "no", onClick: choose(false) }, "Deny")
        ]
      : [])
  )
}

const Chat = ({ stored }) => {
  const [text, setText] = useState("")
  const { addToolApprovalResponse, error, messages, sendMessage, status } = useChat({
    id: "chat-1",
    messages: stored,
    resume: true,
    sendAutomaticallyWhen: lastAssistantMessageIsCompleteWithApprovalResponses,
    transport: new DefaultChatTransport({ api: "/api/chat" })
  })
  const submit = (event) => {
    event.preventDefault()
    sendMessage({ text })
    setText("")
  }
  const showPart = (part, index) => {
    if (part.type === "text") return element("p", { key: index }, part.text)
    return part.type === "dynamic-tool" ? element(Call, { key: index, part, answer: addToolApprovalResponse }) : null
  }
  return element(
    "main",
    { "data-status": status, "data-error": error?.message ?? "" },
    ...messages.map(({ id, parts, role }) => element("article", { key: id, "data-role": role }, ...parts.map(showPart))),
    element(
      "form",
      { onSubmit: submit },
      element("input", { value: text, onChange: (event) => setText(event.target.value) })
    )
  )
}

const stored = await (await fetch("/messages")).json()
createRoot(document.body.appendChild(document.createElement("div"))).render(element(Chat, { stored }))
