/**
 * View of a conversation: its messages as text, calls with their results, images and file changes. The view follows the
 * end while the conversation grows.
 */
import { copier, shownText } from "../../trace/page/DetailText.ts"
import { el, make } from "../../trace/page/Elements.ts"
import { duration, exact } from "../../trace/page/Figures.ts"
import { isFailed } from "../../trace/Row.ts"
import type { CallPart, Message, Part, ResultPart, Tail } from "../StudioApi.ts"
import { diffLines, markdown } from "./MarkdownView.ts"
import { renderFile, renderImage, renderView } from "./ResultView.ts"
import { link, toSession } from "./Router.ts"
import { button, time } from "./Widgets.ts"

/** Maximum number of messages shown at once. A button shows earlier messages. */
const window = 150

/** Maximum distance from the end, in pixels, at which the view follows the end. */
const near = 60

/** Actions that the reader can start in the conversation. */
export interface Actions {
  /** Shows the row of a message in the timeline. */
  readonly toRow: (row: number) => void
  /** Opens the form for a replay; `note` opens the form for a note. Both are absent if the server is read-only. */
  readonly replay?: ((message: Message, result?: ResultPart) => void) | undefined
  readonly note?: ((position: number) => void) | undefined
}

/** The messages of a session as an element that can be updated. */
export interface ConversationView {
  readonly element: HTMLElement
  /** Replaces the messages from an index on. */
  readonly update: (tail: Tail<Message>) => void
  /** Highlights the message of a row and scrolls it into view. Does nothing for a row without a message. */
  readonly mark: (row: number) => void
  /** Scrolls to the end, and follows it as messages are added. */
  readonly toEnd: () => void
}

const names: Readonly<Record<Message["role"], string>> = {
  system: "System",
  user: "User",
  assistant: "Model",
  tool: "Tool"
}

const describeWriter = ({ model, origin, role }: Message): string =>
  role === "assistant"
    ? (model ?? names.assistant)
    : origin === "runtime" && role === "user"
      ? "Runtime"
      : origin === "child"
        ? "Sub-agent"
        : names[role]

/** Creates a collapsible part whose content is created when it is opened. */
const makeLazyDetails = (
  className: string,
  head: ReadonlyArray<Node | string>,
  fill: () => ReadonlyArray<Node>,
  isOpen = false
): HTMLDetailsElement => {
  const box = make("details", { class: className }, make("summary", {}, ...head))
  let isFilled = false
  const open = (): void => {
    if (isFilled) return
    isFilled = true
    box.append(...fill())
  }
  box.addEventListener("toggle", () => {
    if (box.open) open()
  })
  if (isOpen) {
    open()
    box.open = true
  }
  return box
}

const isGood = (status: string): boolean => !isFailed({ status })

const oneLine = (text: string): string => text.slice(0, 300).replace(/\s+/gu, " ")

/** Creates the view of messages. `actions` handle the reader's input. */
export const conversation = (actions: Actions): ConversationView => {
  const earlier = button("", () => grow(), { class: "earlier" })
  const box = el("div", "messages")
  const jump = button("↓ Jump to the end", () => toEnd(), { class: "jump" })
  const scroller = make(
    "div",
    { class: "scroller", tabindex: "0", role: "log", "aria-label": "Conversation" },
    earlier,
    box
  )
  const element = make("div", { class: "conversation" }, scroller, jump)

  let messages: ReadonlyArray<Message> = []
  /** Index of the first message shown. */
  let first = 0
  let isFollowing = true
  /** Shown messages in order: their elements, and a function that removes their results. */
  let drawn: Array<{ readonly node: HTMLElement | undefined; readonly undo: ReadonlyArray<() => void> }> = []
  const cards = new Map<string, HTMLElement>()

  const renderResult = (message: Message, part: ResultPart): HTMLElement => {
    const replay =
      actions.replay === undefined
        ? []
        : [button("Replay with another result", () => actions.replay?.(message, part), { class: "small" })]
    return make(
      "div",
      { class: "result" },
      make("div", { class: "actions" }, el("b", "", "Result"), copier(part.text), ...replay),
      shownText(part.text)
    )
  }

  const renderCall = (part: CallPart): HTMLElement => {
    const state = el("span", "status")
    state.hidden = true
    const head = [el("span", "kind", "⚙"), el("b", "", part.name), el("span", "args", oneLine(part.args)), state]
    const card = makeLazyDetails("call", head, () => [
      make("div", { class: "actions" }, el("b", "", "Arguments"), copier(part.args)),
      shownText(part.args)
    ])
    const diffs = part.diffs.map(({ path, text }) =>
      makeLazyDetails(
        "fileDiff",
        [el("span", "kind", "±"), el("b", "", path)],
        () => [diffLines(text)],
        text.length < 4000
      )
    )
    const children = part.children.map((id) => make("p", { class: "child" }, "Sub-agent: ", link(id, toSession(id))))
    const made = make("div", { class: "callBox" }, card, ...children, ...diffs)
    cards.set(part.id, card)
    return made
  }

  /**
   * Adds a result to the card of its call. Returns a function that removes it, or `undefined` if the call is not shown.
   */
  const answerCall = (message: Message, part: ResultPart): (() => void) | undefined => {
    const card = cards.get(part.id)
    if (!(card instanceof HTMLDetailsElement)) return undefined
    const state = card.querySelector("summary > .status")
    let result: HTMLElement | undefined
    const hasDiffs = card.parentElement?.querySelector(".fileDiff") !== null
    const view = renderView(part.view, hasDiffs)
    if (view !== undefined) card.after(view)
    const isFine = isGood(part.status) && part.view.outcome === "done"
    const show = (): void => {
      if (!card.open || result !== undefined) return
      result = renderResult(message, part)
      card.append(result)
    }
    card.addEventListener("toggle", show)
    // The result is shown after the arguments. Opening the card creates both.
    show()
    card.classList.toggle("failed", !isFine)
    if (state instanceof HTMLElement) {
      state.hidden = false
      state.className = isFine ? "status" : "status bad"
      const { note = "" } = part.view
      const shownNote = part.status.startsWith(note) ? "" : note
      state.textContent = [part.status, shownNote, duration(part.duration ?? 0)].filter(Boolean).join(" · ")
      state.title = shownNote
    }
    return () => {
      card.removeEventListener("toggle", show)
      view?.remove()
      result?.remove()
      if (state instanceof HTMLElement) state.hidden = true
    }
  }

  const renderPart = (message: Message, part: Part, undo: Array<() => void>): ReadonlyArray<HTMLElement> => {
    switch (part.type) {
      case "text":
        return part.text === ""
          ? []
          : message.role === "system"
            ? [
                makeLazyDetails(
                  "long",
                  [`${exact(part.text.length)} characters`, el("span", "args", oneLine(part.text))],
                  () => [markdown(part.text)]
                )
              ]
            : [markdown(part.text)]
      case "reasoning":
        return [
          makeLazyDetails("reasoning", [el("span", "", "Reasoning"), el("span", "args", oneLine(part.text))], () => [
            markdown(part.text)
          ])
        ]
      case "call":
        return [renderCall(part)]
      case "result": {
        const back = answerCall(message, part)
        if (back !== undefined) undo.push(back)
        return back !== undefined
          ? []
          : [
              makeLazyDetails(
                "call",
                [
                  el("span", "kind", "⚙"),
                  el("b", "", `${part.name}: result`),
                  el("span", isGood(part.status) ? "status" : "status bad", part.status)
                ],
                () => [renderResult(message, part)]
              )
            ]
      }
      case "image":
        return [renderImage(part)]
      case "file":
        return [renderFile(part)]
    }
  }

  const draw = (message: Message): (typeof drawn)[number] => {
    const undo: Array<() => void> = []
    const parts = message.parts.flatMap((part) => renderPart(message, part, undo))
    if (parts.length === 0 && message.role === "tool") return { node: undefined, undo }
    const head = make("header", {}, el("b", "writer", describeWriter(message)))
    if (message.at !== undefined && message.at > 0) head.append(time(message.at))
    if (message.partial) head.append(el("span", "status bad", "broke off"))
    const { position, row } = message
    if (row !== undefined) head.append(button("in the timeline", () => actions.toRow(row), { class: "small" }))
    if (
      actions.replay !== undefined &&
      position !== undefined &&
      (message.origin === "user" || message.role === "assistant")
    ) {
      head.append(button("Replay from here", () => actions.replay?.(message), { class: "small" }))
    }
    if (actions.note !== undefined && position !== undefined)
      head.append(button("Note", () => actions.note?.(position), { class: "small" }))
    const node = make(
      "article",
      { class: `turn ${message.role} ${message.origin}`, "aria-label": describeWriter(message) },
      head,
      ...parts
    )
    if (row !== undefined) node.dataset["row"] = String(row)
    return { node, undo }
  }

  const drawEarlier = (): void => {
    earlier.hidden = first === 0
    earlier.textContent = `Show ${exact(first)} earlier ${first === 1 ? "message" : "messages"}`
  }

  const drawFrom = (place: number): void => {
    const kept = Math.max(0, place - first)
    for (const { node, undo } of drawn.slice(kept).reverse()) {
      for (const back of undo) back()
      node?.remove()
    }
    drawn = drawn.slice(0, kept)
    for (const message of messages.slice(first + kept)) {
      const made = draw(message)
      drawn.push(made)
      if (made.node !== undefined) box.append(made.node)
    }
    drawEarlier()
  }

  const grow = (): void => {
    const fromEnd = scroller.scrollHeight - scroller.scrollTop
    first = Math.max(0, first - window * 2)
    cards.clear()
    drawFrom(first)
    scroller.scrollTop = scroller.scrollHeight - fromEnd
  }

  const toEnd = (): void => {
    isFollowing = true
    jump.hidden = true
    scroller.scrollTop = scroller.scrollHeight
  }

  scroller.addEventListener("scroll", () => {
    isFollowing = scroller.scrollHeight - scroller.scrollTop - scroller.clientHeight <= near
    jump.hidden = isFollowing
  })
  jump.hidden = true

  return {
    element,
    toEnd,
    update: ({ from, items }) => {
      const isFirst = messages.length === 0
      messages = [...messages.slice(0, from), ...items]
      if (isFirst) first = Math.max(0, messages.length - window)
      drawFrom(Math.max(first, from))
      if (isFollowing && !isFirst) toEnd()
    },
    mark: (row) => {
      const place = messages.findIndex((message) => message.row === row)
      if (place < 0) return
      if (place < first) {
        first = place
        cards.clear()
        drawFrom(first)
      }
      for (const one of box.querySelectorAll(".marked")) one.classList.remove("marked")
      const node = box.querySelector(`[data-row="${row}"]`)
      node?.classList.add("marked")
      node?.scrollIntoView({ block: "nearest" })
    }
  }
}
