/**
 * What is not text: known by its name or by its first bytes. Pure.
 *
 * @since 0.1.0
 */

const kinds: Record<string, ReadonlyArray<string>> = {
  "an image": ["avif", "bmp", "gif", "heic", "ico", "jpeg", "jpg", "png", "psd", "tif", "tiff", "webp"],
  "audio or video": ["aac", "avi", "flac", "m4a", "mkv", "mov", "mp3", "mp4", "ogg", "opus", "wav", "webm"],
  "an archive": ["7z", "bz2", "gz", "jar", "rar", "tar", "tgz", "war", "whl", "xz", "zip", "zst"],
  "a PDF document": ["pdf"],
  "an old office document": ["doc", "ppt", "xls"],
  "an OpenDocument file": ["odp", "ods", "odt"],
  "compiled code": ["a", "class", "dll", "dylib", "exe", "o", "pyc", "pyd", "so", "wasm"],
  "a database": ["db", "sqlite", "sqlite3"],
  "a font": ["eot", "otf", "ttf", "woff", "woff2"],
  "a key store": ["jks", "kdbx", "keystore", "p12", "pfx"]
}

const byExtension: ReadonlyMap<string, string> = new Map(
  Object.entries(kinds).flatMap(([kind, extensions]) => extensions.map((extension) => [extension, kind] as const))
)

/** What a file name says of a file that is not text. */
export const kindOfName = (name: string): string | undefined => {
  const dot = name.lastIndexOf(".")
  return dot <= 0 ? undefined : byExtension.get(name.slice(dot + 1).toLowerCase())
}

/** Bytes of the beginning of a file that {@link kindOfBytes} looks at. */
export const sniffLength = 8_192

const utf16 = (bytes: Uint8Array): boolean =>
  bytes.length >= 2 && (bytes[0] === 0xff && bytes[1] === 0xfe || bytes[0] === 0xfe && bytes[1] === 0xff)

/** `-----BEGIN`, at the start of a file, as of a PEM block. */
const pem = new TextEncoder().encode("-----BEGIN ")
const privateKey = /^-----BEGIN ([A-Z0-9 ]+ )?PRIVATE KEY/

/** What the first bytes of a file say of a file that is not text to be shown. */
export const kindOfBytes = (bytes: Uint8Array): string | undefined => {
  if (utf16(bytes)) return "UTF-16 text (convert it to UTF-8 first, for example with iconv)"
  if (bytes.subarray(0, sniffLength).includes(0)) return "a binary file"
  if (pem.every((byte, index) => bytes[index] === byte)) {
    return privateKey.test(new TextDecoder().decode(bytes.subarray(0, 64))) ? "a private key" : undefined
  }
  return undefined
}
