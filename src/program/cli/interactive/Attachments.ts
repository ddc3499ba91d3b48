/**
 * Files that a message names with `@path`, or `@path:10-20` for a range of lines: their contents follow the message,
 * and images are attached. A word that does not name a file stays text; a file that is too large is named in a note,
 * and the agent can read it. Files that the file tools refuse to read (credentials) are not attached, and secrets in
 * attached text are masked as in tool results. A picture dragged into the terminal, or pasted as an absolute path, is
 * attached without `@`. A file counts as an image only if its first bytes identify it as one. An attached image has a
 * chip below the line while it is typed, and in the conversation.
 *
 * Source: `hermes-product.md` §1.2 and §1.8.
 */
import * as Effect from "effect/Effect"
import * as FileSystem from "effect/FileSystem"
import * as Path from "effect/Path"
import * as Prompt from "effect/ai/Prompt"
import type { RunInput } from "../../../agent/RunInput.ts"
import * as SafeText from "../render/SafeText.ts"
import * as Redaction from "../../../base/domain/Redaction.ts"
import { Secrets } from "../../../base/domain/Secrets.ts"
import * as Fence from "../../../tools/builtin/file/Fence.ts"
import * as PathRoots from "../../../tools/builtin/file/PathRoots.ts"
import { type Dialog, showNote } from "./Dialog.ts"

/** Maximum size of one attached file in bytes, and maximum number of files in a message. */
const mostBytes = 262_144
const mostFiles = 20

/** Maximum size of an attached picture in bytes. */
const mostPictureBytes = 20 * mostBytes

/** Media types of images that can be attached, by their extension. */
export const imageTypes: Readonly<Record<string, string>> = {
  ".png": "image/png",
  ".jpg": "image/jpeg",
  ".jpeg": "image/jpeg",
  ".gif": "image/gif",
  ".webp": "image/webp"
}

/** A message with the contents of its files. */
interface MessageWithFiles {
  readonly prompt: RunInput["prompt"]
  /** Notes about files that are not attached, with the reasons. */
  readonly notes: ReadonlyArray<string>
  /** A chip for each attached picture. */
  readonly chips: ReadonlyArray<string>
}

interface NamedFile {
  readonly path: string
  readonly from: number | undefined
  readonly to: number | undefined
}

const findNamedFiles = (text: string): ReadonlyArray<NamedFile> => {
  const found = Array.from(text.matchAll(/(?<=^|\s)@([^\s@]+)/g), ([, word = ""]): NamedFile => {
    const bare = word.replace(/[.,;:!?)]+$/, "")
    const [, path = bare, from, to] = /^(.+?):(\d+)(?:-(\d+))?$/.exec(bare) ?? []
    return {
      path,
      from: from === undefined ? undefined : Number(from),
      to: from === undefined ? undefined : Number(to ?? from)
    }
  })
  return found.filter(
    (one, index) =>
      found.findIndex(({ from, path, to }) => path === one.path && from === one.from && to === one.to) === index
  )
}

/**
 * Finds absolute paths of pictures in the forms that terminals paste for dragged files: quoted, with escaped spaces, or
 * as a URL.
 */
const findPictures = (text: string): ReadonlyArray<NamedFile> =>
  Array.from(
    text.matchAll(/(?<=^|\s)(?:'(\/[^'\n]+)'|"(\/[^"\n]+)"|file:\/\/(\/\S+)|(\/(?:\\.|[^\s\\])+))/g),
    ([, single, double, address, bare]): string =>
      single ?? double ?? (address === undefined ? (bare ?? "").replaceAll(/\\(.)/g, "$1") : decodeAddress(address))
  )
    .filter((path) => /\.(?:png|jpe?g|gif|webp)$/i.test(path))
    .map((path) => ({ path, from: undefined, to: undefined }))

/** Decodes the path of a file URL; returns the URL itself if it cannot be decoded. */
const decodeAddress = (address: string): string => {
  try {
    return decodeURIComponent(address)
  } catch {
    return address
  }
}

type Part = { readonly text: string } | { readonly image: Prompt.FilePart } | { readonly note: string }

const readAttachment = Effect.fnUntraced(function* (
  cwd: string,
  places: PathRoots.Service,
  { from, path, to }: NamedFile
): Effect.fn.Return<Part | undefined, never, FileSystem.FileSystem | Path.Path> {
  const files = yield* FileSystem.FileSystem
  const paths = yield* Path.Path
  const file = paths.resolve(cwd, PathRoots.expandHome(path, places.home))
  const info = yield* Effect.orElseSucceed(files.stat(file), () => undefined)
  if (info === undefined || info.type !== "File") return undefined
  const shown = SafeText.toLine(path)
  const real = yield* Effect.orElseSucceed(PathRoots.toCanonicalPath(file), () => file)
  const denial = Fence.judgeRead(file, places) ?? Fence.judgeRead(real, places)
  if (denial !== undefined) return { note: `${shown} is not attached: ${denial.reason}.` }
  const mediaType = imageTypes[paths.extname(file).toLowerCase()]
  if (Number(info.size) > (mediaType === undefined ? mostBytes : mostPictureBytes)) {
    return {
      note: `${shown} is too large to attach (${Math.ceil(Number(info.size) / 1024)} KiB). The agent can read it.`
    }
  }
  const bytes = yield* Effect.orElseSucceed(files.readFile(file), () => undefined)
  if (bytes === undefined) return { note: `${shown} cannot be read and is not attached.` }
  if (mediaType !== undefined) {
    const Vision = yield* Effect.promise(() => import("../../../tools/builtin/Vision.ts"))
    const told = Vision.detectMediaType(bytes)
    if (told === undefined) return { note: `${shown} is not a PNG, JPEG, GIF or WebP image and is not attached.` }
    return { image: Prompt.filePart({ mediaType: told, data: bytes, fileName: paths.basename(file) }) }
  }
  if (bytes.includes(0)) return { note: `${shown} is not text and is not attached.` }
  const all = Redaction.redactText(new TextDecoder().decode(bytes), yield* Secrets).split("\n")
  const lines = from === undefined ? all : all.slice(Math.max(0, from - 1), to)
  const range = from === undefined ? "" : ` lines="${from}-${to ?? from}"`
  return { text: `<file path=${JSON.stringify(path)}${range}>\n${lines.join("\n").replace(/\n?$/, "\n")}</file>` }
})

/** Attaches the files named in a message, relative to the working directory. */
const attachFiles = Effect.fnUntraced(function* (
  text: string,
  cwd: string,
  places: PathRoots.Service
): Effect.fn.Return<MessageWithFiles, never, FileSystem.FileSystem | Path.Path> {
  const parts: Array<Part> = []
  const named = [...findNamedFiles(text), ...findPictures(text)]
  for (const one of named.slice(0, mostFiles)) {
    const part = yield* readAttachment(cwd, places, one)
    if (part !== undefined) parts.push(part)
  }
  const texts = parts.flatMap((part) => ("text" in part ? [part.text] : []))
  const images = parts.flatMap((part) => ("image" in part ? [part.image] : []))
  const notes = parts.flatMap((part) => ("note" in part ? [part.note] : []))
  const whole = [text, ...texts].join("\n\n")
  const chips = images.map(({ data, fileName = "", mediaType }) =>
    [formatChip(fileName), mediaType, ...(data instanceof Uint8Array ? [formatSize(data.length)] : [])].join(" · ")
  )
  return { prompt: images.length === 0 ? whole : [Prompt.textPart({ text: whole }), ...images], notes, chips }
})

const formatSize = (bytes: number): string => (bytes < 1024 ? `${bytes} B` : `${Math.ceil(bytes / 1024)} KiB`)

const formatChip = (name: string): string => `▣ ${SafeText.toLine(name)}`

/**
 * Makes a function that finds the pictures that a line would attach, as chips. It reads names and sizes only, because
 * it is called while the line is typed.
 */
export const makePictureFinder: Effect.Effect<Dialog["pictures"], never, FileSystem.FileSystem | Path.Path> =
  Effect.gen(function* () {
    const files = yield* FileSystem.FileSystem
    const paths = yield* Path.Path
    return Effect.fnUntraced(function* (text, cwd, places = nowhere) {
      const chips: Array<string> = []
      if (!mayNamePicture(text)) return chips
      for (const { path } of [...findNamedFiles(text), ...findPictures(text)].slice(0, mostFiles)) {
        const file = paths.resolve(cwd, PathRoots.expandHome(path, places.home))
        if (imageTypes[paths.extname(file).toLowerCase()] === undefined) continue
        const info = yield* Effect.orElseSucceed(files.stat(file), () => undefined)
        const isAttached = info?.type === "File" && Number(info.size) <= mostPictureBytes
        if (isAttached && Fence.judgeRead(file, places) === undefined) chips.push(formatChip(paths.basename(file)))
      }
      return chips
    })
  })

/** Returns true if a line may name a picture. */
export const mayNamePicture = (text: string): boolean => /\.(?:png|jpe?g|gif|webp)/i.test(text)

const nowhere: PathRoots.Service = { home: undefined, homes: [], agentHomes: [], safeRoots: [] }

/** Creates the prompt of a message with its attached files, and prints notes about files that are not attached. */
export const attachNamedFiles = Effect.fnUntraced(function* (
  dialog: Dialog,
  text: string
): Effect.fn.Return<RunInput["prompt"], never, FileSystem.FileSystem | Path.Path> {
  if (!text.includes("@") && !mayNamePicture(text)) return text
  const { cwd = dialog.options.about.cwd } = (yield* dialog.live.state).session
  const { chips, notes, prompt } = yield* attachFiles(text, cwd, dialog.options.places ?? nowhere)
  const { asidePaint } = dialog.screen
  for (const chip of chips) showNote(dialog, asidePaint.text(`  ${chip}`, "cyan"))
  for (const line of notes) showNote(dialog, asidePaint.text(line, "yellow"))
  return prompt
})
