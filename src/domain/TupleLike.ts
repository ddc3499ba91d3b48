/**
 * A list whose element `0` the compiler knows, so that an array literal that begins with a spread is still read as a
 * tuple where it is checked against a type parameter and this type together.
 */
export type TupleLike<A> = ReadonlyArray<A> & { readonly 0?: A }
