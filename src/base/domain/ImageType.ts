/** Media types of images by their first bytes. */

/** First bytes of the image types that models accept. */
const signatures: ReadonlyArray<readonly [type: string, at: number, bytes: ReadonlyArray<number>]> = [
  ["image/png", 0, [0x89, 0x50, 0x4e, 0x47]],
  ["image/jpeg", 0, [0xff, 0xd8, 0xff]],
  ["image/gif", 0, [0x47, 0x49, 0x46, 0x38]],
  ["image/webp", 8, [0x57, 0x45, 0x42, 0x50]]
]

/** Returns the type of an image by its first bytes, or `undefined` for another file. */
export const findImageType = (data: Uint8Array): string | undefined =>
  signatures.find(([, at, bytes]) => bytes.every((byte, index) => data[at + index] === byte))?.[0]
