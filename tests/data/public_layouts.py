"""What is read and what is refused: the layouts of public data sets and of tools, by name."""

import json

from tests.data.layouts import (
    COLORS,
    GRAY,
    IMAGE,
    Layout,
    N,
    bccd,
    blurred,
    both,
    boxes,
    camvid,
    cityscapes,
    coco,
    coco_2017,
    colored,
    createml,
    cvat,
    cvat_tracks,
    devkits,
    disks,
    each,
    kitti,
    label_me,
    label_studio,
    label_studio_csv,
    label_studio_rows,
    labelme,
    labels,
    lines,
    lvis,
    numbered,
    rows,
    splits,
    supervisely,
    via_1,
    via_2,
    via_3,
    via_csv,
    voc,
    yolo,
)

ROBOFLOW = {'README.dataset.txt': '# bolts', 'README.roboflow.txt': 'bolts - v1'}
ADE = 'ADE/{}/ADE_{}_{{}}'
WIDER = each('WIDER_train/images/0--Parade/0_{}.jpg') | each('WIDER_train/images/1--Hand/1_{}.jpg')
TENSORFLOW = '{b[2]},{b[3]},{name},{i}.jpg,{b[0]},{b[1]},96,64'
MAKESENSE = '{name},{s[0]},{s[1]},{s[2]},{s[3]},{i}.jpg,96,64'
CROWDAI = '{b[0]},{b[1]},{b[2]},{b[3]},{i}.jpg,{name},http://a'
WHEAT = '{i},96,64,"[{s[0]}.0, {s[1]}.0, {s[2]}.0, {s[3]}.0]",usask'
NFC, NFD = '\u00e9', 'e\u0301'  # two spellings of one letter
MAT = b'MATLAB 5.0 MAT-file'

# what is read: the format, the number of images of every split, of objects or classes
READ: dict[str, tuple[Layout, str, dict[str, int], int]] = {
    'BCCD': (bccd(), 'voc', dict(train=3, val=1, test=2), 10),
    'COCO 2017 with panoptic maps': (coco_2017(), 'coco', dict(train=3, val=3), 12),
    'LVIS': (lvis(), 'coco', dict(train=3), 6),
    'VOC 2007 and 2012': (devkits(), 'voc', dict(train=7, val=1, test=2), 20),
    'KITTI': (kitti(), 'kitti', dict(train=3), 6),
    'Supervisely': (supervisely(), 'supervisely', dict(train=3), 6),
    'VIA 3': (via_3(), 'via', dict(train=3), 6),
    'LabelMe 3.0': (label_me(), 'voc', dict(train=3), 3),
    'CVAT for Ultralytics': (
        {'data.yaml': 'names: {0: bolt, 1: nut}\npath: .\ntrain: train.txt\n',
         'train.txt': 'data/images/train/0.jpg\n' + lines('/x/images/train/{}.jpg', [1, 2]),
         **each('images/train/{}.jpg'), **each('labels/train/{}.txt', yolo)},
        'yolo', dict(train=3), 6),
    'CVAT for Ultralytics, subsets': (
        {'data.yaml': 'names: {0: bolt, 1: nut}\npath: .\nTrain: Train.txt\nValidation: V.txt\n',
         'Train.txt': lines('data/images/Train/{}.jpg'), 'V.txt': lines('data/images/V/v{}.jpg'),
         **each('images/Train/{}.jpg'), **each('labels/Train/{}.txt', yolo),
         **each('images/V/v{}.jpg'), **each('labels/V/v{}.txt', yolo)},
        'yolo', dict(train=3, val=3), 12),
    'YOLO of Windows': (
        {'data.yaml': 'names: [bolt, nut]\ntrain: images\\train\nval: D:\\x\\images\\val\n',
         **each('images/train/{}.jpg'), **each('labels/train/{}.txt', yolo),
         **each('images/val/v{}.jpg'), **each('labels/val/v{}.txt', yolo)},
        'yolo', dict(train=3, val=3), 12),
    'YOLO, other spellings in a list': (
        {'data.yaml': 'names: [bolt, nut]\ntrain: train.txt', 'train.txt': lines(f'{NFC}{{}}.JPG'),
         **each(f'images/{NFD}{{}}.jpg'), **each(f'labels/{NFD}{{}}.txt', yolo)},
        'yolo', dict(train=3), 6),
    'makesense.ai': ({'labels.csv': rows(MAKESENSE), **each('{}.jpg')}, 'csv', dict(train=3), 6),
    'makesense.ai for YOLO': (
        {'labels.txt': 'bolt\nnut\n', **each('{}.jpg'), **each('{}.txt', yolo)},
        'darknet', dict(train=3), 6),
    'labels beside images': (
        {'classes.txt': 'bolt\nnut', **each('{}.jpg'), **each('{}.txt', yolo)},
        'darknet', dict(train=3), 6),
    'labels beside images and other texts': (
        {'predefined_classes.txt': 'bolt\nnut', 'readme.txt': 'Bolts', **each('{}.jpg'),
         **each('{}.txt', yolo)}, 'darknet', dict(train=3), 6),
    'names in notes.json': (
        {'notes.json': dict(categories=[dict(id=1, name='nut'), dict(id=0, name='bolt')]),
         **each('images/{}.jpg'), **each('labels/{}.txt', yolo)}, 'darknet', dict(train=3), 6),
    'darknet': (
        {'obj.data': 'classes = 2\ntrain = data/train.txt\nnames = data/obj.names\n',
         'obj.names': 'bolt\nnut\n', 'train.txt': lines('data/obj_train_data/{}.jpg'),
         **each('obj_train_data/{}.jpg'), **each('obj_train_data/{}.txt', yolo)},
        'darknet', dict(train=3), 6),
    'darknet, other spellings': (
        {'obj.data': 'train = train.txt\nnames = obj.names\n', 'obj.names': 'bolt\nnut\n',
         'train.txt': lines(f'x/{NFC}{{}}.JPG'), **each(f'{NFD}{{}}.jpg'),
         **each(f'{NFC}{{}}.txt', yolo)}, 'darknet', dict(train=3), 6),
    'darknet, of VOC': (
        {'voc.data': 'train = train.txt\nnames = voc.names\n', 'voc.names': 'bolt\nnut\n',
         'train.txt': lines('/x/VOC/JPEGImages/{}.jpg'), **each('VOC/JPEGImages/{}.jpg'),
         **each('VOC/labels/{}.txt', yolo)}, 'darknet', dict(train=3), 6),
    'darknet, subsets': (
        {'obj.data': 'classes = 2\nTrain = data/Train.txt\nval = data/val.txt\nnames = x/obj.names',
         'obj.names': 'bolt\nnut\n', 'Train.txt': '0.jpg\n1.jpg\n', 'val.txt': '2.jpg\n',
         **each('{}.jpg'), **each('{}.txt', yolo)}, 'darknet', dict(train=2, val=1), 6),
    'labels beside images in a folder called images': (
        {'classes.txt': 'bolt\nnut', **each('images/{}.jpg'), **each('images/{}.txt', yolo)},
        'darknet', dict(train=3), 6),
    'COCO 2017 of Ultralytics': (
        {'coco.yaml': 'train: images/train\nval: images/val\nnames: [bolt, nut]',
         'annotations/instances_val2017.json': coco(['0.jpg']), **each('images/train/{}.jpg'),
         **each('labels/train/{}.txt', yolo), **each('images/val/v{}.jpg'),
         **each('labels/val/v{}.txt', yolo)}, 'yolo', dict(train=3, val=3), 12),
    'COCO, all images in train': (
        {'train.json': coco(['0.jpg']), 'val.json': coco(['v0.jpg']), 'train/0.jpg': IMAGE,
         'train/v0.jpg': IMAGE}, 'coco', dict(train=1, val=1), 4),
    'VOC, names with spaces in lists beside Main': (
        {**each('JPEGImages/a b {}.jpg'), 'ImageSets/val.txt': '"a b 1"\n',
         **each('Annotations/a b {}.xml', lambda i: voc(f'a b {i}.jpg', boxes(i))),
         'ImageSets/train.txt': 'a b 0\nJPEGImages/a b 2.jpg\n'},
        'voc', dict(train=2, val=1), 6),
    'VOC, other spellings in lists': (
        {**each(f'JPEGImages/{NFD}{{}}.jpg'), 'ImageSets/Main/val.txt': f'{NFC}2\n',
         **each(f'Annotations/{NFD}{{}}.xml', lambda i: voc(f'{NFC}{i}.JPG', boxes(i))),
         'ImageSets/Main/train.txt': lines(NFC.upper() + '{}', [0, 1])},
        'voc', dict(train=2, val=1), 6),
    'VOC, equal names in folders': (
        {f'{kind}/{part}/{i}.{suffix}': IMAGE if kind == 'x' else voc(f'{i}.jpg', boxes(i))
         for part in 'ab' for i in N for kind, suffix in (('x', 'jpg'), ('annotations', 'xml'))},
        'voc', dict(train=6), 12),
    'VOC, equal names in years and in lists': (
        {f'{year}/{path}': content for year, order in (('a', [0, 1, 2]), ('b', [2, 1, 0]))
         for path, content in {
             **each('JPEGImages/{}.jpg'),
             **each('Annotations/{}.xml', lambda i: voc(f'{i}.jpg', boxes(i))),
             'ImageSets/Main/train.txt': lines('{}', order[:2]),
             'ImageSets/Main/val.txt': lines('{}', order[2:])}.items()},
        'voc', dict(train=4, val=2), 12),
    'VOC, equal names in splits': (
        {f'{kind}/{split}/{i}.{suffix}': IMAGE if kind == 'images' else voc(f'{i}.jpg', boxes(i))
         for split in ('train', 'val') for i in N
         for kind, suffix in (('images', 'jpg'), ('annotations', 'xml'))},
        'voc', dict(train=3, val=3), 12),
    'labelme': (labelme(), 'labelme', dict(train=3), 6),
    'CVAT': (cvat(), 'cvat', dict(train=3), 6),
    'CVAT, tracks': (cvat_tracks(), 'cvat', dict(train=3), 6),
    'VIA 1': (via_1(), 'via', dict(train=3), 6),
    'VIA 2': (via_2(), 'via', dict(train=3), 6),
    'VIA, CSV': (via_csv(), 'via', dict(train=3), 6),
    'CreateML': (createml(), 'createml', dict(train=3), 6),
    'Label Studio': (label_studio(), 'label-studio', dict(train=3), 6),
    'Label Studio, renamed uploads': (
        label_studio('part ({}).jpg', 'part_{}.jpg'), 'label-studio', dict(train=3), 6),
    'Label Studio, JSON-MIN': (
        each('images/{}.jpg') | {'export.json': label_studio_rows()},
        'label-studio', dict(train=3), 6),
    'Label Studio, CSV': (label_studio_csv(), 'label-studio', dict(train=3), 6),
    'CSV of TensorFlow': (
        {'train_labels.csv': 'xmax,ymax,class,filename,xmin,ymin,width,height\n' + rows(TENSORFLOW),
         **each('images/{}.jpg')}, 'csv', dict(train=3), 6),
    'CSV of RetinaNet': (
        {'annotations.csv': rows('images/{i}.jpg,{b[0]},{b[1]},{b[2]},{b[3]},{name}'),
         'classes.csv': 'bolt,0\nnut,1\n', **each('images/{}.jpg')}, 'csv', dict(train=3), 6),
    'CSV of Open Images': (
        {'train-annotations-bbox.csv':
            'ImageID,Source,LabelName,Confidence,XMin,XMax,YMin,YMax,IsGroupOf\n'
            + rows('{i},x,/m/0{name},1,{r[0]},{r[2]},{r[1]},{r[3]},0'),
         'class-descriptions-boxable.csv': '/m/0bolt,bolt\n/m/0nut,nut\n',
         **each('images/{}.jpg')}, 'csv', dict(train=3), 6),
    'CSV of Open Images 7': (
        {'train-annotations-bbox.csv': 'ImageID,LabelName,XMin,XMax,YMin,YMax\n'
            + rows('{i},/m/0{name},{r[0]},{r[2]},{r[1]},{r[3]}'),
         'oidv7-class-descriptions-boxable.csv': '/m/0bolt,bolt\n/m/0nut,nut\n',
         **each('images/{}.jpg')}, 'csv', dict(train=3), 6),
    'Udacity': ({'labels.csv': 'xmin,ymin,xmax,ymax,Frame,Label,Preview URL\n' + rows(CROWDAI),
                 **each('{}.jpg')}, 'csv', dict(train=3), 6),
    'Global Wheat': ({'train.csv': 'image_id,width,height,bbox,source\n' + rows(WHEAT),
                      **each('train/{}.jpg'), **each('test/t{}.jpg')}, 'csv', dict(train=3), 6),
    'CamVid': (camvid(), 'masks', dict(train=3, val=3, test=3), 3),
    'CamVid of CVAT': (
        {'label_colors.txt': COLORS, **both('default/{}', 'defaultannot/{}', colored)},
        'masks', dict(train=3), 3),
    'Cityscapes of CVAT': (cityscapes(), 'masks', dict(train=3), 3),
    'KITTI of CVAT': (
        {'label_colors.txt': COLORS, **each('default/semantic/{}.png', labels),
         **both('default/image_2/{}', 'default/semantic_rgb/{}', colored)},
        'masks', dict(train=3), 3),
    'Pascal Context': (
        {**both('JPEGImages/{}', 'SegmentationClassContext/{}', labels),
         'ImageSets/SegmentationContext/train.txt': lines('{}', [0, 1]),
         'ImageSets/SegmentationContext/val.txt': '2\n'}, 'masks', dict(train=2, val=1), 3),
    'label maps of macOS': (
        both(f'images/{NFC}{{}}', f'masks/{NFD}{{}}', labels), 'masks', dict(train=3), 3),
    'SUIM': (both('train_val/images/{}', 'train_val/masks/{}', labels, '.bmp')
             | both('TEST/images/t{}', 'TEST/masks/t{}', labels, '.bmp'),
             'masks', dict(train=3, test=3), 3),
    'Roboflow without a test split': (
        {'data.yaml': 'train: ../train/images\ntest: ../test/images\nnames: [bolt, nut]\n',
         **each('train/images/{}.jpg'), **each('train/labels/{}.txt', yolo)},
        'yolo', dict(train=3), 6),
    'Roboflow masks': (
        {**ROBOFLOW, **both('train/{}_jpg.rf.0a', 'train/{}_jpg.rf.0a_mask', labels),
         'train/_classes.csv': 'Pixel Value, Class\n0, background\n1, bolt\n2, nut\n'},
        'masks', dict(train=3), 3),
    'Kvasir-SEG': (both('images/cju{}', 'masks/cju{}', disks, '.jpg'), 'masks', dict(train=3), 2),
    'ADE20K': (both(ADE.format('images/training', 'train'),
                    ADE.format('annotations/training', 'train'), labels)
               | {'ADE/objectInfo150.txt': 'Idx\tRatio\tTrain\tVal\tStuff\tName\n'},
               'masks', dict(train=3), 3),
    'NYU': (both('image/train/{}', 'label/train/{}', labels) | each('depth/train/{}.png', disks),
            'masks', dict(train=3), 3),
    'Imagenette': (splits('train', 'val') | {'noisy.csv': 'path,is_valid\n'},
                   'classes', dict(train=6, val=6), 2),
    'KITTI of OpenPCDet': (
        {**kitti(), 'ImageSets/train.txt': '0\n1\n', 'ImageSets/val.txt': '2\n',
         'ImageSets/test.txt': lines('{}')}, 'kitti', dict(train=2, val=1), 6),
    'HollywoodHeads': (
        {**each('JPEGImages/{}.jpeg'), 'Splits/train.txt': '0\n1\n', 'Splits/val.txt': '2\n',
         **each('Annotations/{}.xml', lambda i: voc(f'{i}.jpeg', boxes(i)))},
        'voc', dict(train=2, val=1), 6),
    'labelme with lists': (
        {**labelme(), 'train.txt': '0\n1\n', 'val.txt': '2\n'},
        'labelme', dict(train=2, val=1), 6),
    'YOLO with lists of VOC': (
        {'classes.txt': 'bolt\nnut', **each('images/{}.jpg'), **each('labels/{}.txt', yolo),
         'ImageSets/Main/train.txt': '0\n1\n', 'ImageSets/Main/val.txt': '2\n'},
        'darknet', dict(train=2, val=1), 6),
    'DOTA of Ultralytics': (
        {'data.yaml': 'train: images/train\nval: images/val\nnames: [bolt, nut]\n',
         **{f'{kind}/{split}{ending}/{split}{i}.{suffix}': IMAGE if suffix == 'jpg' else yolo(i)
            for split in ('train', 'val') for i in N for kind, ending, suffix in (
                ('images', '', 'jpg'), ('labels', '', 'txt'), ('labels', '_original', 'txt'))}},
        'yolo', dict(train=3, val=3), 12),
    'TrayDataset': (
        both('XTrain/{}', 'yTrain/{}', labels) | both('XTest/t{}', 'yTest/t{}', labels),
        'masks', dict(train=3, test=3), 3),
    'CVC-ClinicDB': (
        {**each('PNG/Original/{}.png'), **each('PNG/Ground Truth/{}.png', disks),
         **each('TIF/Original/{}.tif'), **each('TIF/Ground Truth/{}.tif', disks)},
        'masks', dict(train=3), 2),
    'ISIC 2017': (
        {**both('Data/ISIC_{}', 'GroundTruth/ISIC_{}_segmentation', disks),
         **each('Data/ISIC_{}_superpixels.png')}, 'masks', dict(train=3), 2),
    'CamSeq': (
        {**each('a{}.png'), **each('a{}_L.png', colored), 'label_colors.txt': COLORS},
        'masks', dict(train=3), 3),
    'classes whose names have words for label maps': (
        each('AnnualCrop/{}.png') | each('groundnut/{}.png'), 'classes', dict(train=6), 2),
    'classes of one split': (
        splits('d/training_set', classes=('cat', 'dog')) | {'d/single_prediction/1.jpg': IMAGE},
        'classes', dict(train=6), 2),
    'Intel': (splits('seg_train/seg_train', 'seg_test/seg_test') | each('seg_pred/seg_pred/{}.jpg'),
              'classes', dict(train=6, test=6), 2),
    'two classes of numbered photos': (
        each('cat/{}.jpg') | each('dog/{}.jpg'), 'classes', dict(train=6), 2),
    'a class called train': (
        splits('train', classes=('dog', 'train')), 'classes', dict(train=6), 2),
    'an archive of macOS': (
        each('cat/{}.jpg') | each('dog/{}.jpg') | {'__MACOSX/cat/._0.jpg': b''},
        'classes', dict(train=6), 2),
    'State Farm': (
        {**splits('imgs/train', classes=('c0', 'c1')), 'list.csv': 'subject,classname,img\n'
         + lines('p1,c0,imgs_trainc0{}.JPEG')}, 'classes', dict(train=6), 2),
    'Food-11': (splits('training', 'validation', 'evaluation'),
                'classes', dict(train=6, val=6, test=6), 2),
    'GTSRB of Kaggle': (
        {**splits('Train', classes=('20', '21')), **each('Test/0{}.png'),
         'Train.csv': 'Width,Height,Roi.X1,Roi.Y1,Roi.X2,Roi.Y2,ClassId,Path\n'
         + lines('27,26,5,5,22,20,20,Train/20/Train20{}.JPEG'),
         'Test.csv': lines('53,54,6,5,48,49,20,Test/0{}.png')}, 'classes', dict(train=6), 2),
    'classes of PaddleX, with lists': (
        {**splits('all'), 'train_list.txt': lines('bolt/allbolt{}.JPEG 0') + 'nut/allnut0.JPEG 1\n',
         'val_list.txt': lines('nut/allnut{}.JPEG 1', [1, 2])}, 'classes', dict(train=4, val=2), 2),
    'COCO with lists': (
        {'annotations.json': coco(['0.jpg', '1.jpg', '2.jpg']), **each('images/{}.jpg'),
         'train.txt': lines('images/{}.jpg', [0, 1]), 'val.txt': 'images/2.jpg\n'},
        'coco', dict(train=2, val=1), 6),
    'CSV, a class of another name, with lists': (
        {'boxes.csv': 'image_id,image_name,type,xmin,ymin,xmax,ymax\n'
         + rows('7,{i}.jpg,{name},{b[0]},{b[1]},{b[2]},{b[3]}'), **each('images/{}.jpg'),
         'ImageSets/Main/val.txt': '2\n'}, 'csv', dict(train=2, val=1), 6),
    'COCO of pandas': (
        {'train.json': json.dumps(coco(['0.jpg', '1.jpg', '2.jpg'])).replace('96,', '96.0,'),
         **each('{}.jpg')}, 'coco', dict(train=3), 6),
    'CHASE_DB1, in folders': (
        both('images/Image_{}L', 'masks/Image_{}L_1stHO', disks), 'masks', dict(train=3), 2),
    'flower_photos': (splits('flower_photos') | {'flower_photos/LICENSE.txt': 'CC-BY'},
                      'classes', dict(train=6), 2),
}  # fmt: skip
# what is refused, and what the message says
REFUSED: dict[str, tuple[Layout, str]] = {
    'VisDrone': (each('train/images/{}.jpg') | each('train/annotations/{}.txt', '5,9,3,2,1,4,0,0'),
                 r'3 \.txt of 8 integers a line(.|\n)*VisDrone'),
    'WIDER FACE, of one list': (WIDER | {'train.txt': '0_0.jpg\n1\n5 9 3 2 0 0 0 0 0 0 \n'},
                                'format of WIDER FACE'),
    'DOTA': (each('images/{}.png') | each('labelTxt/{}.txt', '5 9.0 9 9 9 5 5 5.0 a 0\n'),
             'of 10 words a line(.|\n)*DOTA, which has rotated boxes'),
    'VoTT': (each('{}.jpg') | {'a-export.json': dict(assets=dict(a=dict(boundingBox={})))}, 'VoTT'),
    'WIDER FACE': (WIDER | {'wider_face_split/wider_face_train_bbx_gt.txt': '0_0.jpg\n1\n5 9 3 2\n',
                            'wider_face_split/wider_face_train.mat': MAT}, r'1 \.mat, 1 \.txt of'),
    'Penn-Fudan': ({**each('PNGImages/{}.png'), **each('PedMasks/{}_mask.png', numbered)},
                   'number the objects of an image'),
    'DRIVE': (each('training/images/2{}_training.tif')
              | each('training/1st_manual/2{}_manual1.gif', b'GIF89a'), r'3 \.gif'),
    'SBD': ({**each('dataset/img/{}.jpg'), **each('dataset/inst/{}.mat', MAT)}, r'3 \.mat'),
    'Severstal': ({**each('train_images/{}.jpg'), **each('test_images/t{}.jpg'),
                   'train.csv': 'ImageId,ClassId,EncodedPixels\n0.jpg,1,5 10\n'},
                  '1 .csv with the columns ImageId, ClassId, EncodedPixels'),
    'Caltech 101': (splits('101_Objects') | each('Annotations/bolt/{}.mat', MAT), r'\.mat'),
    'Stanford Dogs': (splits('Images') | each('Annotation/bolt/n{}', voc('n', boxes(0))),
                      'without suffix'),
    'Roboflow for YOLOv4': (ROBOFLOW | each('train/{}.jpg')
                            | {'train/_annotations.txt': lines('{}.jpg 5,10,35,30,0')},
                            r'\.txt of 6 words a line'),
    'an empty line between classes': (
        {**each('{}.jpg'), **each('{}.txt', yolo), 'classes.txt': 'bolt\n\nnut\n\n'},
        r'classes\.txt, line 2 is empty'),
    'a class called train without a split': (
        each('train/{}.png') | each('dog/{}.png'), 'in no known format: it has 6 images'),
    'the maps of each class in a folder': (
        {**each('images/{}.jpg'), **each('masks/car/{}.png', disks),
         **each('masks/road/{}.png', disks)},
        r'label maps in \S*masks/car, \S*masks/road: give the folder'),
    'gray levels': ({**each('images/{}.jpg'), **each('masks/{}.png', lambda i: labels(i, GRAY))},
                    r'gray levels 0, 128, 255(.|\n)*128,128,128    3\d'),
    'gray levels without white': (
        {**each('images/{}.jpg'), **each('masks/{}.png', lambda i: labels(i, (0, 128)))},
        r'gray levels 0, 128, and'),
    'black and white, resized': (
        {**each('images/{}.jpg'), **each('masks/{}.png', blurred)},
        r'black and white, with \d+ tones between'),
    'few colors, with the names of folders': (
        each('img/{}.png', labels) | each('gt/{}.png', labels), '--images DIR --masks DIR'),
    'classes in another order': (
        {**each('train/{}.jpg'), **each('train/{}.txt', yolo), 'train/classes.txt': 'bolt\nnut',
         **each('val/v{}.jpg'), **each('val/v{}.txt', yolo), 'val/classes.txt': 'nut\nbolt'},
        r'train/classes\.txt and \S*val/classes\.txt number the classes differently'),
    'label maps and labels without names': (
        {**both('images/{}', 'masks/{}', labels), **each('images/{}.txt', yolo)},
        r'but no names(.|\n)*or give --format masks'),
    'images like masks': (
        each('images/{}.png', labels) | each('masks/{}.png', labels), '--images DIR --masks DIR'),
    'a text beside an image': (
        splits('flowers') | {'flowers/bolt/flowersbolt0.txt': '12 14 30 40 rose'},
        r'5 words a line\n.*\n.*bolt0\.txt may hold annotations'),
    'malaria': (
        splits('cell_images', 'cell_images/cell_images', classes=('bolt', 'nut')),
        r'would be classes \(bolt, cell_images, nut\), but cell_images has folders of images'),
    'New Plant Diseases': (
        splits('plants/plants/train', 'plants/plants/valid') | {'test/test/0.jpg': IMAGE},
        r'plants has folders of images as well \(train, valid\)'),
    'PlantVillage': (
        splits('color', 'grayscale'), r'color has folders of images as well \(bolt, nut\)'),
    'HAM10000': (
        {**each('ham_part_1/{}.jpg'), **each('ham_part_2/I{}.jpg'),
         'meta.csv': 'lesion_id,image_id,dx\n' + lines('L{0},I{0},nv')},
        'with the columns lesion_id, image_id, dx'),
    'nnU-Net': (
        {**each('imagesTr/{}_0000.png'), **each('labelsTr/{}.png', labels), 'dataset.json': '{}'},
        'in no known format: it has 6 images'),
    'digits': (
        each('0/{}.png') | each('1/{}.png', lambda i: labels(i, range(80 * i, 80 * i + 60))),
        '--images DIR --masks DIR, or --format classes'),
    'darknet without its list to validate on': (
        {'obj.data': 'train = train.txt\nvalid = x/test.txt\nnames = obj.names\n',
         'obj.names': 'bolt\nnut\n', 'train.txt': lines('{}.jpg'), **each('{}.jpg'),
         **each('{}.txt', yolo)}, r"obj\.data: 'x/test\.txt', to validate on, does not exist"),
    'keras-yolo3': (
        splits('all', classes=('left', 'right'))
        | {'annotations.txt': lines('left/allleft{}.JPEG 5,10,35,30,0 9,9,30,30,1')},
        r'annotations\.txt may hold annotations(.|\n)*classes, give --format classes'),
    'SageMaker, in folders': (
        splits('all', classes=('left', 'right')) | {'output.manifest': lines(
            '{{"source-ref": "s3://b/left/allleft{}.JPEG", "b": [[1, 5, 10, 30, 20, 0, 96]]}}')},
        r'\.manifest are not read(.|\n)*classes, give --format classes'),
    'CVAT for MOT': (each('img1/{}.png') | {'gt/gt.txt': lines('{},1,5,10,30,20,1,1,1.0')},
                     r'\.txt of 9 numbers a line'),
}  # fmt: skip
