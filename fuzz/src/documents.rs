//! Fuzzes files of documents: whatever a survey accepts can be read row by row, and is stored as it was read.

use prony_model::spec::{CollectionSpec, DocumentSpec, Encoding, KeySpec, ValueSpec};
use prony_workload::{Records, decode, encode, survey};

pub(super) fn run(data: &[u8]) {
    let Some((form, content)) = data.split_first() else { return };
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join(if form % 2 == 0 { "d.ndjson" } else { "d.csv" });
    std::fs::write(&path, content).expect("a file");
    let (file, fields) = match survey(&path) {
        Ok(found) => found,
        Err(error) => {
            assert!(error.to_string().len() < 2_000, "content is not quoted at length");
            return;
        }
    };
    let (rows, longest) = (file.rows, file.longest.as_bytes());
    let document = DocumentSpec { fields, encoding: Encoding::Json, file: Some(file) };
    let paths = document.paths();
    let spec = CollectionSpec {
        name: None,
        records: rows,
        key: KeySpec::Integer { bytes: 8 },
        value: ValueSpec::Document(document.clone()),
    };
    let records = Records::new(&spec, 1).expect("a file that was surveyed can be read");
    let (mut json, mut packed) = (Vec::new(), Vec::new());
    for row in (0..rows).rev() {
        let read = records.document(row, 0).expect("a document");
        records.value(row, 0, &mut json);
        assert!(json.len() as u64 <= longest, "no document is longer than the longest");
        packed.clear();
        encode(Encoding::MsgPack, &read, &mut packed);
        assert_eq!(decode(Encoding::MsgPack, &packed).expect("what was encoded"), read);
        for path in &paths {
            let mut found = document.kinds(path);
            found.add_value(read.at(&path.0));
            assert_eq!(found, document.kinds(path), "the survey has seen each kind of `{path}`");
        }
    }
}

pub(super) fn seeds() -> Vec<Vec<u8>> {
    let of = |form: u8, text: &str| [&[form], text.as_bytes()].concat();
    vec![
        of(0, "{\"a\":1,\"in\":{\"b\":[true,null,\"x\"]}}\n\n{\"a\":-2.5e3,\"in\":null}\r\n{\"in\":{\"b\":{}}}"),
        of(0, "\u{feff}{\"\":{\"a.b\":\"\\u0000\"}}\n"),
        of(1, "id,in.type,in.n,on,list\r\n\"a\n\"\"b\"\"\",T,1,true,\"[1,2]\"\r\n,,2.5,false,[]\r\n"),
        of(1, "\u{feff}n,zip\n1,007\n-0, 8\n"),
        of(1, "a,b\n1e999,99999999999999999999\nnan,\"[\"\n"),
        of(0, "{\"a\":18446744073709551615}\n{\"a\":1,\"a\":2}\n[1]\n"),
    ]
}
